"""Time a card's kernel on a GPU, each variant against the first one, the
device's peak and torch; or on the emulator, in warp instructions per second.

Every variant is checked before it is timed.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.cli.arguments import natural, positive
from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import STDOUT, add_json, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wmmadiag.bench import BenchRow

FORMAT_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("card", metavar="CARD", help="kernel.toml, or the folder that holds it")
    parser.add_argument("--case", action="append", metavar="NAME", default=None, help="default: the largest")
    parser.add_argument(
        "--variant", action="append", metavar="NAME", default=None, help="only these; the first is 1.00"
    )
    parser.add_argument(
        "--backend", choices=("auto", "gpu", "emulator"), default="auto", help="default: the GPU if any"
    )
    parser.add_argument("--arch", metavar="SM", default=None, help="target (default: the GPU's own, else sm_90)")
    parser.add_argument("--reference", choices=("torch",), default="", help="also time and compare torch's attention")
    parser.add_argument("--repeats", type=positive, metavar="N", default=50, help="timed launches (default: 50)")
    parser.add_argument("--seed", type=natural, metavar="N", default=None, help="seed of the inputs")
    add_json(parser, "the rows")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.api import open_card
    from wmmadiag.backends import default_arch
    from wmmadiag.bench import bench_card
    from wmmadiag.gpu.devices import available, device

    backend = args.backend if args.backend != "auto" else "emulator" if available() else "gpu"
    path = Path(args.card)
    card = open_card(path / "kernel.toml" if path.is_dir() else path)
    where = device() if backend == "gpu" else None
    console.note(
        f"{card.name} on {where.name}, CUDA {where.driver}" if where else f"{card.name} on the emulator: {available()}"
        if args.backend == "auto" else f"{card.name} on the emulator"
    )  # fmt: skip
    rows: list[BenchRow] = []
    with console.doing(f"timing {card.name}"):
        rows += bench_card(
            card,
            arch=args.arch or default_arch(backend),
            backend=backend,
            cases=args.case,
            variants=args.variant,
            reference=args.reference,
            repeats=args.repeats,
            seed=args.seed,
        )
    if args.json:
        data = {"format_version": FORMAT_VERSION, "rows": [dataclasses.asdict(row) for row in rows]}
        write_json(data, args.json, console)
    if args.json != STDOUT:
        console.print(table(rows, gpu=backend == "gpu"))
    for row in rows:
        if row.note:
            console.note(f"{row.name} / {row.case}: {row.note}")
    if any(row.status in ("failed", "error") for row in rows):
        console.note(f"next: wmmadiag check {shlex.quote(args.card)}, which says more")
    if any(row.status == "failed" for row in rows):
        return 1
    return 2 if any(row.status == "error" for row in rows) else 0


def table(rows: Sequence[BenchRow], *, gpu: bool) -> str:
    """The rows as a table in Markdown's manner."""
    from tabulate import tabulate

    if not gpu:
        heads = ["case", "variant", "check", "s", "warp instructions", "million/s"]
        lines = []
        for row in rows:
            million = row.warp_instructions / row.seconds / 1e6 if row.seconds else 0.0
            figures = [f"{row.seconds:.4f}", f"{row.warp_instructions:,}", f"{million:.1f}"] if row.seconds else []
            lines.append([row.case, row.name, row.status, *figures])
        return str(tabulate(lines, headers=heads, tablefmt="github", disable_numparse=True))
    base: dict[str, float] = {}
    for row in rows:
        if row.seconds and row.status != "reference":
            base.setdefault(row.case, row.seconds)
    heads = [
        "case", "variant", "check", "µs", "±", "× first", "TFLOP/s", "of mma.sync", "regs", "spill B", "smem B",
        "occupancy", "off torch",
    ]  # fmt: skip
    lines = []
    for row in rows:
        first = base.get(row.case, 0.0)
        lines.append(
            [
                row.case,
                row.name,
                row.status,
                f"{row.seconds * 1e6:.1f}" if row.seconds else "",
                f"{row.spread:.0%}" if row.spread else "",
                f"{first / row.seconds:.2f}" if row.seconds and first else "",
                f"{row.rate / 1e12:.1f}" if row.rate else "",
                f"{row.peak:.0%}" if row.peak else "",
                *(str(number) if number >= 0 else "" for number in (row.registers, row.spills, row.shared)),
                f"{row.occupancy:.0%}" if row.occupancy else "",
                "" if row.difference != row.difference else f"{row.difference:.1e}",
            ]
        )
    return str(tabulate(lines, headers=heads, tablefmt="github", disable_numparse=True))
