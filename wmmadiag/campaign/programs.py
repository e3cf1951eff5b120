"""Programs among a plan's subjects: they are run once, and the launches that they make take their place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from wmmadiag.campaign.plan import Plan, Subjects
from wmmadiag.errors import ConfigurationError


def with_launches(plan: Plan, subjects: Subjects, found: Sequence[Path]) -> list[Path]:
    """The subjects, with cards of its launches in place of each source that has a `main`.

    Raises:
        WmmadiagError: a program cannot be run, or a launch's card would be incomplete.
    """
    from wmmadiag.programs.cards import has_main

    every: list[Path] = []
    for path in found:
        every += _cards(plan, path) if subjects.main and has_main(path) else [path]
    return every


def folder_of(plan: Plan, source: Path) -> Path:
    """Where a program's cards stand: beside the plan, where all workers see them, and hidden from `find_subjects`."""
    shown = os.path.relpath(source.resolve(), plan.path.parent.resolve()).replace("..", "up")
    return plan.path.with_name(f".{plan.path.stem}.captured") / shown


def _cards(plan: Plan, source: Path) -> list[Path]:
    from wmmadiag import backends
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.programs.cards import captured_launches, card_of
    from wmmadiag.subject.drafts.new_card import write_card

    options = CompileOptions(arch=plan.arches[0] or backends.default_arch("emulator"))
    launches = captured_launches(source, options, instructions=plan.instructions, quiet=True)
    made = []
    for number, launch in enumerate(launches, 1):
        target = folder_of(plan, source) / f"{number}.toml"
        text = card_of(launch, options, target)
        if '"TODO"' in text:
            raise ConfigurationError(
                f"{source}: not all of its launches can be repeated from a card: {launch['where']}",
                hint=f"write cards with `wmmadiag init {source} --run`, fill in what says TODO, and name them in the "
                f"plan; or take the source alone: main = false",
            )
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"cannot make the folder {target.parent}: {error.strerror}",
                hint="set WMMADIAG_CACHE_DIR to a folder that can be written",
            ) from None
        write_card(target, text, overwrite=True)
        made.append(target)
    return made
