"""What checks cost, as a table: `python benchmarks/checks.py`.

Each kernel is launched bare, with single checks, with those that run by default, and with all, in turn in the same
run; medians are compared. B = 2, H = 8, S = 512, D = 64, one host thread. The bar is 3 for all checks together.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from emulator import FUSED_SHARED, ROOT, B, D, H, S, alternate
from tabulate import tabulate

from wmmadiag.checks import all_checks, native_names, select
from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import EmulatorOptions, load, native
from wmmadiag.launch import Launch
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.symbols import rendered_entry, rendered_macros

Subject = tuple[str, str, str, Launch]
"""Name, PTX, entry, launch."""


def source(path: Path, entry: str, macros: dict[str, str], launch: Launch, name: str) -> Subject:
    """A compiled kernel with its launch."""
    compiled = compile_source(path, CompileOptions(arch="sm_90", macros=macros))
    return name, compiled.ptx, compiled.entry(entry).name, launch


def card(folder: str, variant: str, case: str) -> Subject:
    """A case of a shipped card."""
    one = load_card(ROOT / "kernels" / folder / "kernel.toml")
    chosen = one.variant(variant) if variant else one.variants[0]
    bound = bind(one, one.case(case), chosen, seed=0, inputs="")
    entry = rendered_entry(one, one.case(case), chosen)
    macros = rendered_macros(one, one.case(case), chosen)
    return source(chosen.source or one.source, entry, dict(macros), bound.launch, f"kernels/{folder}")


def row(subject: Subject, choices: Sequence[str], threads: int, runs: int) -> list[str]:
    """Bare time, and ratios."""
    name, ptx, entry, launch = subject
    kernels = [
        load(ptx, entry, arch="sm_90", options=EmulatorOptions(threads=threads, checks=native_names(select(words))))
        for words in choices
    ]
    times = alternate([lambda kernel=kernel: kernel.launch(launch) for kernel in kernels], runs)
    return [name, f"{times[0]:.3f} s", *(f"{seconds / times[0]:.2f}" for seconds in times[1:])]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="host threads of the emulator (default: 1)")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each (default: 5)")
    parser.add_argument("--checks", default="", help="names to measure alone, with commas (default: each)")
    options = parser.parse_args()
    alone = options.checks.split(",") if options.checks else [c.name for c in all_checks().values() if c.native]
    choices = ["none", *alone, "default", "all"]
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((B, H, S, D)).astype(np.float16) for _ in range(3))
    arguments = [q, k, v, np.zeros_like(q), S, float(1 / np.sqrt(D))]
    tiles = Launch((S // 64, B * H, 1), (128, 1, 1), arguments, shared_bytes=FUSED_SHARED)
    subjects = [
        source(ROOT / "benchmarks/attention_64x64.cu", "attention_64x64", {}, tiles, "attention_64x64"),
        card("attention", "wmma", "batched"),
        card("attention_fused", "", "batched"),
    ]
    rows = [row(subject, choices, options.threads, options.runs) for subject in subjects]
    print(f"checks, {native.isa()} engine, {options.threads} threads; times the bare run")
    print(tabulate(rows, headers=["kernel", "bare", *choices[1:]], disable_numparse=True))


if __name__ == "__main__":
    main()
