"""Cards of right kernels that cannot be checked yet, each with what stands in the way."""

import pytest

NOT_YET = {
    "cross_attention_accessor.toml": "an alias template of torch::PackedTensorAccessor32 is lost",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expects the named cards to fail; strictly, so that one that passes shows."""
    for item in items:
        if reason := NOT_YET.get(item.path.name):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
