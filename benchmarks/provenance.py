"""What following every value costs: `python benchmarks/provenance.py`.

The engine's run with tags and samples, times the bare run, on one host thread; then the whole of
`wmmadiag.provenance.trace`, with the comparison of intermediate values and the float64 reference.
B = 2, H = 8, S = 512, D = 64. The bar is 6 for the run.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

from emulator import ROOT
from tabulate import tabulate

from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import EmulatedKernel, load, native
from wmmadiag.provenance import trace
from wmmadiag.provenance.trace import traced_launch
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.symbols import rendered_entry, rendered_macros


def subject(folder: str, variant: str) -> tuple[BoundCase, EmulatedKernel]:
    """The batched case of a shipped card, and its kernel."""
    card = load_card(ROOT / "kernels" / folder / "kernel.toml")
    case, chosen = card.case("batched"), card.variant(variant) if variant else card.variants[0]
    macros = dict(rendered_macros(card, case, chosen))
    made = compile_source(chosen.source or card.source, CompileOptions(arch="sm_90", macros=macros))
    entry = made.entry(rendered_entry(card, case, chosen)).name
    return bind(card, case, chosen), load(made.ptx, entry, arch="sm_90")


def measured(folder: str, variant: str, runs: int) -> list[str]:
    """A row of the table: the kernel, its bare time, and how many times that the others take."""
    times: dict[str, list[float]] = {"bare": [], "run": [], "trace": []}
    for _ in range(runs):
        for name, seconds in times.items():
            case, kernel = subject(folder, variant)
            bare = EmulatedKernel(kernel.kernel, replace(kernel.options, threads=1))
            start = time.process_time()
            if name == "bare":
                bare.launch(case.launch)
            else:
                (traced_launch if name == "run" else trace)(case, kernel)
            seconds.append(time.process_time() - start)
    bare_time = min(times["bare"])
    return [folder, f"{bare_time:.3f} s", *(f"{min(times[name]) / bare_time:.2f}" for name in ("run", "trace"))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each (default: 5)")
    options = parser.parse_args()
    # Read when NumPy is imported: threads of the reference would count as processor time while they wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        kernels = (("attention", "wmma"), ("attention_fused", ""))
        rows = [pool.submit(measured, *kernel, options.runs).result() for kernel in kernels]
    print(f"provenance, {native.isa()} engine, 1 thread, processor time; times the bare run")
    print(tabulate(rows, headers=["kernel", "bare", "run with tags", "whole trace"], disable_numparse=True))


if __name__ == "__main__":
    main()
