"""Host code of a small source, run over symbols, and what it launches as plain values."""

from __future__ import annotations

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.host import runs
from wmmadiag.hostcode.program import read_program
from wmmadiag.hostcode.values import Struct

KERNEL = """
template <int BM, typename T> __global__ void mm(const T* A, const T* B, float* C, int M, int N, int K) {}
"""


def ran(tmp_path, text, include_paths=(), answer=None):
    path = tmp_path / "k.cu"
    path.write_text(text)
    return runs(read_program(text, path.as_posix(), include_paths, {}), answer)


def launched(tmp_path, text, **options):
    return [(launch, run.machine) for run in ran(tmp_path, text, **options) for launch in run.launches]


def told(value):
    if isinstance(value, Struct):
        return [told(cell.value) for cell in value.members.values()]
    return terms.text(value) if isinstance(value, terms.Term) else value


def shown(launch, machine):
    """Kernel, grid, block and shared bytes, with numbers in the place of what has usual values."""
    by = {name: terms.number(value) for name, value in machine.usual.items()}

    def plain(value):
        return terms.text(terms.replaced(value, by))

    grid, block = ([plain(cell.value) for cell in shape.members.values()] for shape in (launch.grid, launch.block))
    return f"{launch.kernel.name}<{', '.join(launch.kernel.arguments)}>", grid, block, plain(launch.shared)
