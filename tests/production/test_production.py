"""Kernels of public libraries, included as they are: skipped where the libraries are not.

`CUTLASS_HOME` and `FLASH_ATTENTION_HOME` say where they are.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wmmadiag.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples" / "production"
CUTLASS = ("CUTLASS_HOME", "include")
CARDS = {
    "cutlass_gemm": [CUTLASS],
    "cute_hgemm": [CUTLASS, ("CUTLASS_HOME", "tools/util/include"), ("CUTLASS_HOME", "examples/cute/tutorial")],
    "flash_attention": [("FLASH_ATTENTION_HOME", "csrc/flash_attn/src"), CUTLASS],
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def includes(name: str) -> list[str]:
    """The options that lead to a card's libraries; the test is skipped where one is not there."""
    found = []
    for variable, folder in CARDS[name]:
        home = os.environ.get(variable)
        if not home or not (Path(home) / folder).is_dir():
            pytest.skip(f"{variable} does not say where the library's {folder} is")
        found += ["-I", str(Path(home) / folder)]
    return found


@pytest.mark.parametrize("name", CARDS)
def test_a_library_kernel_is_right(name: str) -> None:
    assert main(["check", str(EXAMPLES / f"{name}.toml"), "--arch", "sm_80", *includes(name)]) == 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("{b, k}", "{b, n}"), ("{alpha, beta}", "{alpha, alpha}")],
    ids=["leading dimension", "epilogue"],
)
def test_a_library_kernel_that_is_filled_wrong_is_told_so(tmp_path: Path, right: str, wrong: str) -> None:
    options = includes("cutlass_gemm")
    source = (EXAMPLES / "cutlass_gemm.cu").read_text()
    assert right in source
    (tmp_path / "cutlass_gemm.cu").write_text(source.replace(right, wrong))
    (tmp_path / "cutlass_gemm.toml").write_text((EXAMPLES / "cutlass_gemm.toml").read_text())
    assert main(["check", str(tmp_path / "cutlass_gemm.toml"), "--arch", "sm_80", *options]) == 1
