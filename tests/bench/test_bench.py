"""What a benchmark counts and prints; times themselves are no test's business."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.bench import BenchRow
from wmmadiag.bench.measure import bench_card
from wmmadiag.bench.peak import _FORMS, peak_ptx
from wmmadiag.cli.bench import table
from wmmadiag.errors import ConfigurationError
from wmmadiag.gpu.assemble import assemble, nvjitlink
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.shapes import floating_operations
from wmmadiag.subject.card_files.read import load_card

KERNELS = Path(__file__).parents[2] / "kernels"


@pytest.mark.parametrize(
    ("operation", "shapes", "options", "expected"),
    [
        ("attention", {"q": (2, 8, 512, 64), "k": (2, 8, 512, 64), "v": (2, 8, 512, 64)}, {}, 4 * 16 * 512 * 512 * 64),
        ("attention", {"q": (1, 4, 10, 8), "k": (1, 2, 20, 8), "v": (1, 2, 20, 6)}, {}, 2 * 4 * 10 * 20 * 14),
        ("attention", {"q": (1, 1, 4, 2), "k": (1, 1, 4, 2), "v": (1, 1, 4, 2)}, {"causal": True}, 64),
        ("qkt", {"q": (1, 2, 3, 5), "k": (1, 2, 7, 5)}, {}, 2 * 2 * 3 * 7 * 5),
        ("pv", {"p": (1, 2, 3, 7), "v": (1, 2, 7, 5)}, {}, 2 * 2 * 3 * 7 * 5),
        ("gemm", {"a": (3, 4), "b": (4, 5), "d": (3, 5)}, {}, 2 * 3 * 5 * 4),
        ("gemm", {"a": (4, 3), "b": (4, 5), "d": (3, 5)}, {"transpose_a": True}, 2 * 3 * 5 * 4),
        ("softmax", {"x": (3, 4)}, {}, 0),
        ("gemm", {"a": (2, 3, 4), "b": (4, 5), "d": (2, 3, 5)}, {}, 2 * 2 * 3 * 5 * 4),
        ("gated_gemm", {"a": (3, 4), "gate": (4, 5), "up": (4, 5)}, {}, 4 * 3 * 5 * 4),
    ],
)
def test_operations(
    operation: str, shapes: dict[str, tuple[int, ...]], options: dict[str, bool], expected: int
) -> None:
    parameters = {"causal": False, "transpose_a": False, "transpose_b": False, **options}
    assert floating_operations(OPERATIONS[operation], shapes, parameters) == expected


@pytest.mark.skipif(nvjitlink() is None, reason="nvJitLink is not installed")
@pytest.mark.parametrize("element", sorted(_FORMS))
def test_the_peak_kernel_assembles(element: str) -> None:
    assert assemble(peak_ptx(element), "sm_80")


def test_the_emulators_speed() -> None:
    card = load_card(KERNELS / "qkt" / "kernel.toml")
    (row,) = bench_card(card, arch="sm_80", backend="emulator", cases=["one_tile"], repeats=2)
    assert (row.status, row.case) == ("passed", "one_tile")
    assert row.warp_instructions > 0
    assert row.seconds > 0
    assert "million/s" in table([row], gpu=False)


def test_a_reference_that_does_not_exist() -> None:
    card = load_card(KERNELS / "qkt" / "kernel.toml")
    with pytest.raises(ConfigurationError, match="no reference 'torch' for qkt"):
        next(bench_card(card, arch="sm_80", backend="emulator", reference="torch"))


def test_the_table_compares_with_the_first_variant() -> None:
    rows = [
        BenchRow("torch SDPA", "c", "reference", 1e-5, operations=1e9),
        BenchRow("wmma", "c", "passed", 4e-5, 0.1, 1e9, 0.5, 64, 0, 1024, 0.25, difference=1e-3),
        BenchRow("scalar", "c", "passed", 8e-5, operations=1e9),
    ]
    lines = table(rows, gpu=True).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    assert [row[5] for row in cells] == ["4.00", "1.00", "0.50"]
    assert cells[1][6:8] == ["25.0", "50%"]
    assert cells[1][-1] == "1.0e-03"
