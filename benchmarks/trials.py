"""How many changes a second are tried, as a table: `python benchmarks/trials.py [NAME…]`.

Six wrong kernels of 55 to 360 lines, each with the changes that the operators yield for it, taken evenly from all of
them. NAMEs pick those whose name contains one.

batched    changes that hang on a value, as `TrialBench.try_batch` tries them: by the hundred in one program, in as many
           processes as there are processors (four at most)
single     the same kind of changes, each compiled on its own, with all else alike: precompiled headers, the same
           optimisation, one block
ratio      of the two
per CPU s  batched trials per second of processor time, in one process: what other work on the machine changes less
of itself  wrong elements as in the kernel itself, in every program
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tabulate import tabulate

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.operators.registry import changes
from wmmadiag.diagnose.trials import team
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.subject.open_subject import open_subject
from wmmadiag.subject.symbols import rendered_entry

ROOT = Path(__file__).resolve().parents[1]
BATCHED, SINGLE = 1024, 16


@dataclass(frozen=True, slots=True)
class Kernel:
    """A card, and what is broken in its source; nothing where it is wrong as it is."""

    card: str
    old: str = ""
    new: str = ""


KERNELS = (
    Kernel("kernels/gemm/wrong/b_tile_offset.toml"),
    Kernel("kernels/attention/wrong/qk_not_transposed.toml"),
    Kernel("kernels/gemm/kernel.toml", "sC[warp][e / T::N * LD_C", "sC[warp][e / T::N * LD_B"),
    Kernel("kernels/attention/kernel.toml", "sKV + kk * 16 * LD_KV + tile_col", "sKV + kk * 16 * LD_P + tile_col"),
    Kernel(
        "tests/diagnose/public_style/fa2_regs.toml", "bidh / (params.h / params.h_k);", "bidh % params.h_k;"
    ),
    Kernel("kernels/attention_fused/kernel.toml", "k_tile + ((k_offset + j * 16", "k_tile + ((k_offset + j * 8"),
)  # fmt: skip


def benches(kernel: Kernel, threads: int) -> Iterator[TrialBench]:
    """A bench for each case of a kernel."""
    card = open_subject(ROOT / kernel.card)
    variant = card.variants[0]
    texts = {}
    if kernel.old:
        source = variant.source or card.source
        text = source.read_text("utf-8")
        assert text.count(kernel.old) >= 1, kernel.old
        texts = {source.as_posix(): text.replace(kernel.old, kernel.new, 1).encode()}
    for case in card.cases:
        yield TrialBench(Setting(card, variant, case, texts=texts), threads=threads)


def evenly(every: Sequence[Change], count: int) -> list[Change]:
    """So many of them, from first to last."""
    return [every[i * len(every) // count] for i in range(count)] if len(every) > count else list(every)


def timed(bench: TrialBench, tried: Sequence[Change]) -> tuple[float, float, list[Outcome]]:
    """Trials a second, and a second of the processors' time, and what came of them."""
    begun, used = time.perf_counter(), time.process_time()
    outcomes = bench.try_batch(tried)
    return len(tried) / (time.perf_counter() - begun), len(tried) / (time.process_time() - used), outcomes


def row(kernel: Kernel) -> list[object]:
    """One kernel's line of the table."""
    team.start(0)
    bench, alone = (next(one for one in benches(kernel, threads) if one.wrong_before) for threads in (0, 1))
    every = [
        one
        for one in changes(bench.texts, rendered_entry(bench.card, bench.case, bench.variant))
        if one.kind != "static"
    ]
    chosen = evenly(every, BATCHED)
    for one in (bench, alone):
        one.try_batch(chosen[:64])  # the headers are precompiled now, and all processes have their benches
    batched, _, outcomes = timed(bench, chosen)
    _, steadily, same = timed(alone, chosen)
    assert same == outcomes
    alone._programs.prepared = replace(alone._programs.prepared, definition=None)  # a compilation for each
    single, _, _ = timed(alone, [replace(one, kind="static") for one in evenly(chosen, SINGLE)])
    lines = next(iter(bench.texts.values())).count(b"\n")
    work = sum(one.work for one in outcomes)
    return [
        Path(kernel.card).stem if not kernel.old else Path(kernel.card).parent.name,
        lines,
        bench.case.name,
        len(bench.instructions),
        f"{max(bench.instructions):,}",
        len(chosen),
        f"{work // len(chosen):,}",
        f"{batched:.0f}",
        f"{single:.1f}",
        f"{batched / single:.0f}",
        f"{steadily:.0f}",
        "yes" if all(one.faithful for one in outcomes) else "no",
    ]


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args(arguments)
    rows = [row(one) for one in KERNELS if not given.names or any(name in one.card for name in given.names)]
    head = [
        "kernel",
        "lines",
        "case",
        "blocks",
        "instructions",
        "changes",
        "per trial",
        "batched/s",
        "single/s",
        "ratio",
    ]
    print(f"{len(os.sched_getaffinity(0))} processors; instructions: warp instructions of a block, and of a trial")
    print(tabulate(rows, [*head, "per CPU s", "of itself"], disable_numparse=True))


if __name__ == "__main__":
    main(sys.argv[1:])
