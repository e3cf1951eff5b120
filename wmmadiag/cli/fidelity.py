"""`wmmadiag campaign --fidelity`: the emulator against this machine's GPU, on fresh operands."""

from __future__ import annotations

import argparse
import datetime
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.cli.arguments import natural, positive
from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import STDOUT, check_files, make_folder, write_text
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wmmadiag.campaign.run import Executor
    from wmmadiag.fidelity.run import Fidelity
    from wmmadiag.gpu.devices import Device

_JOURNAL = "fidelity.journal"
_OF_PLANS = ("compact", "baseline", "write_baseline", "html", "markdown", "sarif", "junit", "against", "trend")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of a fidelity run."""
    group = parser.add_argument_group("the emulator against a GPU, bit for bit (in place of a plan)")
    group.add_argument("--fidelity", action="store_true", help="compare them on random and hard operands")
    group.add_argument(
        "--outputs", type=positive, metavar="N", default=10**9, help="of the tensor cores, in all (default: 1e9)"
    )
    group.add_argument(
        "--rounds", type=natural, metavar="N", default=1, help="seeds for each other instruction, program and kernel"
    )
    group.add_argument(
        "--first-seed", type=positive, metavar="K", default=1, help="default: 1; 0 is that of the committed records"
    )
    group.add_argument("--only", metavar="FAMILY", nargs="+", default=[], help="tensor, instructions, kernels, …")


def run(args: argparse.Namespace, console: Console) -> int:
    """Compare; 0 if all agree, 1 if not, 3 if something, or all, could not be compared."""
    from wmmadiag.campaign.api import executor
    from wmmadiag.campaign.journal import Journal
    from wmmadiag.fidelity.report import as_json, text
    from wmmadiag.fidelity.run import FidelityPlan, run_fidelity

    for name in _OF_PLANS:
        if getattr(args, name):
            raise ConfigurationError(
                f"--{name.replace('_', '-')} is for campaigns with a plan", hint="a fidelity run has --json"
            )
    check_files({"json": args.json} if args.json else {})
    if args.bundles:
        make_folder("bundles", args.bundles)
    if args.plan:
        raise ConfigurationError("--fidelity takes no plan", hint="--only, --outputs and --rounds say what it compares")
    own = None if args.scheduler else _device(None)
    path = Path(args.journal or _JOURNAL)
    if path.exists() and path.stat().st_size and not args.resume:
        raise ConfigurationError(
            f"the journal {path} holds an earlier run", hint="go on with --resume, or give another --journal"
        )
    began = time.monotonic()
    with (
        Journal(path) as journal,
        executor(args.scheduler, args.workers, here=args.here, gpu=True, tell=console.note) as execute,
    ):
        gpu = own or _of_a_worker(execute)
        plan = FidelityPlan(gpu.arch, args.outputs, args.rounds, args.first_seed, tuple(args.only))
        found = run_fidelity(plan, journal, execute, tell=_telling(console, began))
        console.clear()
        if args.bundles:
            _write_bundles(found, Path(args.bundles), execute, console)
    where = f"{gpu.name}, CUDA {gpu.driver}"
    if args.json != STDOUT:
        console.print(text(found, where))
    if args.json:
        today = datetime.date.today().isoformat()
        written = json.dumps(as_json(found, where, today, time.monotonic() - began), indent=1)
        write_text(written + "\n", args.json, console)
    return 1 if found.differing else 0 if found.complete else 3


def _device(_: None) -> Device:
    """That of the process which calls it: this one, or a worker."""
    from wmmadiag.gpu import device

    try:
        return device()
    except ConfigurationError as error:
        hint = (
            "a fidelity run needs a GPU, here or on a worker of --scheduler; docs/exactness.md says what one answered"
        )
        raise ConfigurationError(error.message, detail=error.detail, hint=hint) from None


def _of_a_worker(execute: Executor) -> Device:
    """The GPU of a cluster's worker: this machine need not have one."""
    (done,) = execute(_device, [None])
    if done.answer is None:
        raise ConfigurationError(
            f"no GPU on the worker that says it has one: {done.error}", hint="start it where one is: --resources GPU=1"
        )
    found: Device = done.answer
    return found


def _telling(console: Console, began: float) -> Callable[[Fidelity], None]:
    def tell(found: Fidelity) -> None:
        rate = found.outputs / max(1e-9, time.monotonic() - began)
        console.progress(f"{found.outputs:,} outputs compared, {rate:,.0f}/s, {found.differing:,} differ")

    return tell


def _write_bundles(found: Fidelity, folder: Path, execute: Executor, console: Console) -> None:
    """The first piece of each key that differs."""
    from wmmadiag.fidelity.bundle import packed

    firsts = [one.first.piece for one in found.counts.values() if one.first is not None]
    for number, done in enumerate(execute(packed, firsts), 1):
        if done.answer is None:
            console.note(f"no bundle of {done.work.key}: {done.error}")
            continue
        target = folder / f"difference-{number}.wmmadiag"
        target.write_bytes(done.answer)
        console.note(f"wrote {target}: repeat it anywhere with `wmmadiag replay {target}`")
