"""`load_inline`: the files that its texts become, and what `load` is given. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import wmmadiag.torch
from wmmadiag.errors import ConfigurationError


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    given: dict[str, Any] = {}
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(
        wmmadiag.torch, "load", lambda name, sources, **others: given.update(name=name, sources=sources, others=others)
    )
    return given


def test_texts_become_the_files_that_torch_makes_of_them(loaded: dict[str, Any]) -> None:
    wmmadiag.torch.load_inline(
        "twice", "torch::Tensor f(torch::Tensor x);", ["__global__ void k() {}", "// rest"], functions=["f"],
        extra_cuda_cflags=["-O2"], verbose=True,
    )  # fmt: skip
    cpp, cuda = (Path(one) for one in loaded["sources"])
    assert (cpp.name, cuda.name, loaded["name"]) == ("main.cpp", "cuda.cu", "twice")
    assert loaded["others"] == {"extra_cuda_cflags": ["-O2"], "verbose": True}
    assert cpp.read_text().splitlines() == [
        "#include <torch/extension.h>", "torch::Tensor f(torch::Tensor x);",
        "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", 'm.def("f", torch::wrap_pybind_function(f), "f");', "}",
    ]  # fmt: skip
    assert cuda.read_text().splitlines() == [
        "#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>",
        "__global__ void k() {}", "// rest",
    ]  # fmt: skip


def test_a_mapping_says_what_functions_do_and_headers_may_be_left_out(loaded: dict[str, Any]) -> None:
    wmmadiag.torch.load_inline(
        "g", ["int g();"], functions={"g": "says"}, with_pytorch_error_handling=False, no_implicit_headers=True
    )
    (cpp,) = (Path(one) for one in loaded["sources"])
    assert cpp.read_text().splitlines()[0] == "int g();" and 'm.def("g", g, "says");' in cpp.read_text()


def test_sycl_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="SYCL"):
        wmmadiag.torch.load_inline("s", "", sycl_sources="void f();")
