"""A campaign's plan: PLAN.toml → `Plan`, every mistake with its line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmmadiag.campaign.sizes import SizeRange
from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.ops.expressions import ExpressionError, parse
from wmmadiag.place import Place
from wmmadiag.subject.card import Expression, Places
from wmmadiag.subject.card_files.table import Table, type_name
from wmmadiag.subject.card_files.toml import read_table
from wmmadiag.subject.distributions import DISTRIBUTIONS

FORMAT = 1
COVERS = ("pairwise", "full", "random")
"""How axes are combined: every two values of two axes together at least once, all with all, or a sample of that."""
_PLAN = ("format", "name", "subjects", "axes", "cover", "run")
_SUBJECT = ("paths", "sizes", "requires", "variants", "wrong", "main")
_AXES = ("arch", "inputs", "seeds", "schedules", "displaced")
_COVER = ("how", "cases", "seed")
_RUN = ("checks", "instructions", "backend", "slice")
_RANGE = re.compile(r"\s*(\d+)\s*\.\.\s*(\d+)\s*\Z")
_LARGEST = 1 << 30

PlannedSizes = Mapping[str, "SizeRange | tuple[Expression, ...]"]


@dataclass(frozen=True, slots=True)
class Subjects:
    """Kernels that are tried in the same way."""

    paths: tuple[Path, ...]  # cards, sources, and folders of cards
    place: Place
    sizes: PlannedSizes  # symbol → the range that the kernels take, of which the edges are tried, or the values to try
    requires: tuple[str, ...] = ()  # expressions over symbols that must not be 0: other combinations are left out
    variants: tuple[str, ...] = ()  # names to take; empty for all
    # whether kernels are taken, too, that are broken on purpose (a truth file stands beside the card)
    wrong: bool = False
    main: bool = True  # whether a source with a `main` is run, and stands for the launches that it makes


@dataclass(frozen=True, slots=True)
class Plan:
    """What is tried."""

    path: Path  # the plan's file
    name: str
    subjects: tuple[Subjects, ...]
    arches: tuple[str, ...] = ("",)  # targets; "" for the card's or the default one
    inputs: tuple[str, ...] = ("",)  # distributions; "" for the card's own
    # seeds, schedules, displaced: of inputs; other orders of warps and copies; bytes behind a multiple of 512
    seeds: Sequence[int] = (0,)
    schedules: tuple[int, ...] = (0,)
    displaced: tuple[int, ...] = (0,)
    how: str = "pairwise"  # one of `COVERS`; cases: at most so many of each subject, 0 for all; seed: of the sample
    cases: int = 0
    seed: int = 0
    # checks, backend, instructions: of each run, the last in warp instructions, 0 for no limit
    checks: str = "default"
    backend: str = "emulator"
    instructions: int = 200_000_000
    slice: int = 64  # cases in one task


def read_plan(path: Path) -> Plan:
    """Read and check a plan.

    Raises:
        ConfigurationError: with the file, the line of the offending key and the next step.
    """
    shown = "docs/campaigns.md shows one"
    return _plan(read_table(path, "the plan", shown, shown), path)


def plan_of(content: Mapping[str, Any], path: Path) -> Plan:
    """A plan from what its file would hold.

    Args:
        path: where that would lie: paths are relative to its folder.

    Raises:
        ConfigurationError: as `read_plan`, without a line.
    """
    return _plan(Table(dict(content), Places(str(path), {})), path)


def _plan(table: Table, path: Path) -> Plan:
    if "subjects" not in table:
        raise ConfigurationError(
            "this TOML file is no plan of a campaign: it names no subjects",
            place=table.place(),
            hint='a plan has [[subjects]] with paths = ["kernel.toml"]; docs/campaigns.md shows one',
        )
    table.check_keys(_PLAN)
    if table.integer("format", FORMAT) != FORMAT:
        raise table.error("format", f"this wmmadiag reads plans of format {FORMAT}", "update wmmadiag")
    axes, cover, run = table.table("axes"), table.table("cover"), table.table("run")
    axes.check_keys(_AXES)
    cover.check_keys(_COVER)
    run.check_keys(_RUN)
    plan = Plan(
        path=path,
        name=table.string("name") or path.stem,
        subjects=tuple(_subjects(one, path) for one in table.tables("subjects")),
        arches=_words(axes, "arch") or ("",),
        inputs=_words(axes, "inputs", DISTRIBUTIONS) or ("",),
        seeds=_seeds(axes),
        schedules=_numbers(axes, "schedules"),
        displaced=_numbers(axes, "displaced"),
        how=cover.word("how", COVERS, "pairwise"),
        cases=cover.integer("cases", 0),
        seed=cover.integer("seed", 0),
        checks=_checks(run),
        backend=run.word("backend", ("emulator", "gpu", "both"), "emulator"),
        instructions=run.integer("instructions", 200_000_000),
        slice=run.integer("slice", 64, 1, 10_000),
    )
    if plan.how == "random" and not plan.cases:
        raise cover.error("how", "a random sample needs its size", "add cases = 1000")
    if plan.backend != "emulator" and plan.displaced != (0,):
        raise axes.error("displaced", "where arrays lie is chosen on the emulator only", "take backend = 'emulator'")
    return plan


def _checks(table: Table) -> str:
    from wmmadiag.checks import select

    text = table.string("checks", "default")
    try:
        select(text)
    except ConfigurationError as error:
        raise table.error("checks", error.message, error.hint) from None
    return text


def _subjects(table: Table, path: Path) -> Subjects:
    table.check_keys(_SUBJECT)
    table.require("paths", 'paths = ["kernel.toml"]')
    paths = table.strings("paths")
    if not paths:
        raise table.error("paths", "'paths' is empty", 'name a card or a folder: paths = ["kernel.toml"]')
    sizes = table.table("sizes")
    return Subjects(
        tuple(path.parent / one for one in paths),
        table.place(),
        {name: _size(sizes, name) for name in sizes.content},
        tuple(_parsed(table, "requires", one) for one in table.strings("requires")),
        tuple(table.strings("variants")),
        _yes(table, "wrong", False),
        _yes(table, "main", True),
    )


def _parsed(table: Table, key: str, text: Any) -> Any:
    """An expression, or a number, that can be evaluated if its symbols are there."""
    if isinstance(text, str):
        try:
            parse(text)
        except ExpressionError as error:
            raise table.error(key, f"'{text[:60]}': {error}", 'write one over symbols: "H % Hkv == 0"') from None
    return text


def _yes(table: Table, key: str, default: bool) -> bool:
    value = table.content.get(key, default)
    if not isinstance(value, bool):
        raise table.error(key, f"'{key}' must be true or false, but is {type_name(value)}")
    return value


def _size(table: Table, name: str) -> SizeRange | tuple[Expression, ...]:
    """ "1..300", { range = "16..512", multiple_of = 16 }, or a list of values."""
    value: Any = table.content[name]
    if isinstance(value, list):
        if not value:
            raise table.error(name, f"'{name}' has no values", f'write {name} = [16, 64], or {name} = "1..300"')
        return tuple(_parsed(table, name, table.as_expression(one, name)) for one in value)
    unit = 1
    if isinstance(value, dict):
        inner = table.table(name)
        inner.check_keys(("range", "multiple_of"))
        inner.require("range", 'range = "16..512"')
        unit = inner.integer("multiple_of", 1, 1, _LARGEST)
        value = inner.string("range")
    if not isinstance(value, str):
        hint = f'write {name} = "1..300", a list of values, or {{ range = "16..512", multiple_of = 16 }}'
        raise table.error(name, f"'{name}' must say which sizes it takes, but is {type_name(value)}", hint)
    found = _RANGE.match(value)
    if found is None:
        raise table.error(name, f"'{value[:60]}' is no range of sizes", f'write {name} = "1..300"')
    sizes = SizeRange(int(found[1]), int(found[2]), unit)
    if sizes.high > _LARGEST or not any(one in sizes for one in range(sizes.high // unit * unit, sizes.high + 1, unit)):
        raise table.error(name, f"no size lies in {value}" + (f" in steps of {unit}" if unit > 1 else ""))
    return sizes


def _words(table: Table, key: str, known: Mapping[str, str] | None = None) -> tuple[str, ...]:
    found = table.strings(key) if key in table else ()
    if key in table and not found:
        raise table.error(key, f"'{key}' is empty", "name one, or leave the key out")
    for word in found:
        if known is not None and word not in known:
            raise table.error(key, f"unknown {key} '{word[:60]}'", did_you_mean(word, known))
    return tuple(dict.fromkeys(found))


def _seeds(table: Table) -> Sequence[int]:
    """A list of whole numbers; a single one stands for as many, from 0."""
    value: Any = table.content.get("seeds")
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1_000_000:
        return range(value)
    return _numbers(table, "seeds")


def _numbers(table: Table, key: str) -> tuple[int, ...]:
    """A list of whole numbers."""
    if key not in table:
        return (0,)
    value: Any = table.content[key]
    if not isinstance(value, list) or not value or any(type(one) is not int or one < 0 for one in value):
        raise table.error(key, f"'{key}' must be a list of whole numbers", f"write {key} = [0, 1]")
    return tuple(dict.fromkeys(value))
