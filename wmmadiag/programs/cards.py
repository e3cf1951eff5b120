"""The launches of a program as cards: its main is run, and each launch of its own kind becomes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import ConfigurationError, UndecidedError, WmmadiagError
from wmmadiag.programs.capture import card_text, relative


def has_main(path: Path) -> bool:
    """Whether a file is a CUDA source with a `main` of its own."""
    if path.suffix not in (".cu", ".cpp", ".cc"):
        return False
    from wmmadiag.compile.read import read_bytes
    from wmmadiag.csource.declarations import declarations
    from wmmadiag.csource.skeleton import without_bodies
    from wmmadiag.csource.tree import parse

    try:
        data = read_bytes(path)
    except WmmadiagError:
        return False  # no text, too long, or none that ends
    if b"main" not in data:
        return False
    functions = declarations(parse(without_bodies(data))).functions
    return any(one.name == "main" and not one.scope and one.body is not None for one in functions)


def captured_launches(
    source: Path,
    options: CompileOptions,
    arguments: Sequence[str] = (),
    *,
    launch: int | None = None,
    instructions: int = 0,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Run a program, unwatched; returns its launches that are like none before, as `card_of` takes them.

    Args:
        arguments: of the program.
        launch: the number of the only one that is wanted.
        instructions: warp instructions that a launch may take; 0: no limit.
        quiet: what it prints goes nowhere, and it reads nothing.

    Raises:
        WmmadiagError: it cannot be built, or not be run to its end, or there is no such launch.
    """
    from wmmadiag.programs.build import build
    from wmmadiag.programs.run import run_program
    from wmmadiag.programs.spec import ProgramSpec

    program = build([source], options)
    spec = ProgramSpec(options, checks="none", capture=True, instructions=instructions)
    result = run_program(program, spec, str(source.with_suffix("")), arguments, quiet=quiet)
    if result.ended or result.internal:
        raise UndecidedError(
            f"{source}: the program could not be run to its end",
            detail=result.ended or result.internal,
            hint="run it first: `wmmadiag run`; cards are made of what it launches",
        )
    chosen = [one for one in result.captured if launch in (None, one["number"])]
    if not chosen:
        which = "no launch" if launch is None else f"no launch {launch} that is like none before it"
        raise ConfigurationError(
            f"{source}: {which}",
            hint=f"the program launched {result.launches} kernels, of {len(result.captured)} kinds",
        )
    return chosen


def card_of(launch: Mapping[str, Any], options: CompileOptions, target: Path) -> str:
    """The text of a launch's card, which shall stand at `target`; `options`: those that the program was built with."""
    whole = {
        **launch, "std": options.std, "macros": options.macros,
        "include_paths": [relative(path, target) for path in options.include_paths],
    }  # fmt: skip
    return card_text(whole, relative(Path(launch["source"]), target))
