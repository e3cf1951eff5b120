"""Trace a card's case, or a kernel whose source is given in a test."""

from __future__ import annotations

from pathlib import Path

from wmmadiag import emulator
from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.provenance import ProvenanceRun, trace
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.symbols import rendered_entry, rendered_macros

KERNELS = Path(__file__).parents[2] / "kernels"

PRELUDE = """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
using FragA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using RowB = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
using ColB = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;
using Acc = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;
"""


def prepared(path: Path, case: str, variant: str = "", arch: str = "sm_90") -> tuple[BoundCase, EmulatedKernel]:
    """A card's case, bound, and its kernel."""
    card = load_card(path)
    one = card.case(case)
    chosen = card.variant(variant) if variant else card.variants[0]
    entry, macros = rendered_entry(card, one, chosen), rendered_macros(card, one, chosen)
    options = CompileOptions(
        arch=arch,
        macros={name: value or None for name, value in macros.items()},
        include_paths=card.include_paths,
        std=card.std,
        name_expressions=(entry,) if "<" in entry else (),
    )
    made = compile_source(chosen.source or card.source, options)
    return bind(card, one, chosen), emulator.load(made.ptx, made.entry(entry).name, arch=arch)


def traced_card(path: Path, case: str, variant: str = "", arch: str = "sm_90") -> ProvenanceRun:
    """Trace one case of a card."""
    return trace(*prepared(path, case, variant, arch))


def traced_source(
    folder: Path, source: str, computes: str, arguments: str, case: str, *, grid: str = "1", block: int = 32
) -> ProvenanceRun:
    """Trace the kernel `k` of a source, which stands after PRELUDE.

    `computes`: operation and parameters as in a card's table, "gemm\\ntranspose_b = true"; `arguments`:
    "name role dtype" or "name = value", separated by commas; `case`: symbols, "M = 16, N = 16, K = 32".
    """
    (folder / "k.cu").write_text(PRELUDE + source)
    operation, _, parameters = computes.partition("\n")
    lines = ["format = 1", 'name = "k"', 'source = "k.cu"', 'entry = "k"', "[computes]", f'operation = "{operation}"']
    lines.append(parameters)
    for argument in (word.strip() for word in arguments.split(",")):
        lines.append("[[arguments]]")
        if "=" in argument:
            name, value = argument.split("=")
            lines += [f'name = "{name.strip()}"', 'dtype = "s32"', f'value = "{value.strip()}"']
        else:
            name, role, dtype = argument.split()
            lines += [f'name = "{name}"', f'role = "{role}"', f'dtype = "{dtype}"']
            if role in ("d", "o", "scores"):
                lines.append('initial = "zero"')
    lines += ["[launch]", f"grid = [{grid}]", f"block = {block}", "[[cases]]", 'name = "case"']
    lines += [symbol.strip() for symbol in case.split(",")]
    (folder / "k.toml").write_text("\n".join(lines))
    return traced_card(folder / "k.toml", "case")


def line_of(source: str, text: str) -> int:
    """Line of the only place in a source, after PRELUDE, that holds a text."""
    lines = [number for number, line in enumerate((PRELUDE + source).splitlines(), 1) if text in line]
    assert len(lines) == 1, (text, lines)
    return lines[0]
