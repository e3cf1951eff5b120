"""Two small kernels for campaigns: one right, one wrong wherever N is not 16."""

from __future__ import annotations

import pytest
from small_kernels import write_right


@pytest.fixture
def kernels(tmp_path):
    """A folder with `right.toml` and `wrong.toml`."""
    write_right(tmp_path)
    source = (tmp_path / "gemm.cu").read_text()
    (tmp_path / "skewed.cu").write_text(source.replace("C + r * N + c, sum, N,", "C + r * N + c, sum, 16,"))
    (tmp_path / "wrong.toml").write_text((tmp_path / "right.toml").read_text().replace("gemm.cu", "skewed.cu"))
    return tmp_path
