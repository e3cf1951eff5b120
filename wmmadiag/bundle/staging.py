"""The folder that a bundle's check runs in: the same files under the same relative paths, then and later."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.api import check, open_card
from wmmadiag.bundle.model import BundleOptions, InputHash
from wmmadiag.errors import WmmadiagError
from wmmadiag.recording import ReportRecorder, run_of
from wmmadiag.subject.binding import bind

if TYPE_CHECKING:
    from wmmadiag.results.run import Run
    from wmmadiag.subject.card_session import Compiler


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Make a folder the current one for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def lay_out(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files under their relative paths, which must have been checked."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def overlay(options: BundleOptions) -> dict[str, Any]:
    """The options that lie over the card."""
    names = ("entry", "grid", "block", "shared", "macros", "symbols", "std")
    return {name: getattr(options, name) for name in names}


def input_hashes(card: str, options: BundleOptions) -> list[InputHash]:
    """The hashes of the inputs that are drawn here and now, in the current folder."""
    import hashlib

    import numpy as np

    opened = open_card(card, **overlay(options))
    found = []
    for case in options.cases:
        for variant in options.variants:
            try:
                bound = bind(
                    opened, opened.case(case), opened.variant(variant), seed=options.seed, inputs=options.inputs
                )
            except WmmadiagError:
                continue  # the check will say so
            for role, array in bound.inputs().items():
                digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
                found.append(InputHash(case, variant, role, digest))
    return found


def checked(card: str, options: BundleOptions, compile_with: Compiler, backend: str = "emulator") -> Run:
    """The check of a bundle's card, in the current folder."""
    recorder = ReportRecorder(options.seed, options.inputs)
    report = check(
        card,
        arch=options.arch,
        cases=options.cases,
        variants=options.variants,
        seed=options.seed,
        inputs=options.inputs,
        checks=options.checks if backend == "emulator" else "none",
        schedules=options.schedules if backend == "emulator" else 0,
        provenance=options.provenance and backend == "emulator",
        backend=backend,
        recorder=recorder,
        compile_with=compile_with,
        **overlay(options),
    )
    return run_of([recorder.kernel_run(report)], command=f"wmmadiag check {card}", seconds=report.seconds)
