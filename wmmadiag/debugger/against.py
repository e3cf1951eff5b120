"""Two runs side by side: another variant, another card, or what a GPU left; where they first differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.comparison import wrong_elements
from wmmadiag.debugger.first_store import element_name, first_store
from wmmadiag.debugger.fragment_view import FragmentView
from wmmadiag.debugger.target import open_target
from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.ops.parts.rounding import Judgement
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.verdict import judge_case

if TYPE_CHECKING:
    from wmmadiag.debugger.position import Moment
    from wmmadiag.debugger.session import Session

_MOST_TILES = 20_000
_TILE_PART = 2.0**-7
"""Two tiles differ where an element is off by more than this part of the largest in it: above rounding."""


@dataclass(frozen=True, slots=True)
class OtherRun:
    """What a session is compared with."""

    name: str  # for messages
    outputs: Mapping[str, NDArray[Any]]  # role → what it left
    judgements: Mapping[str, Judgement] | None  # its rounding bounds by role; None for bits (a GPU's results)
    session: Session | None = None  # the other run, where there is one


@dataclass(frozen=True, slots=True)
class RunDifference:
    """Where two runs first differ."""

    kind: str  # "tile" (a multiplication's result) or "value" (a stored output element)
    words: str  # one sentence
    moment: Moment  # where the session stands: before the instruction
    # mine, theirs: the fragments, of a tile
    mine: FragmentView | None = None
    theirs: FragmentView | None = None

    def __str__(self) -> str:
        return f"{self.words}\n{self.moment}" if self.words != self.moment.words else str(self.moment)


def open_other(session: Session, against: str | Path) -> OtherRun:
    """The other run: a variant of the same card, a card, or an .npz file with arrays by role or argument.

    Raises:
        ConfigurationError: there is no such thing, or it does not fit.
    """
    path, target = Path(against), session.target
    if path.suffix == ".npz":
        return _recorded(session, path)
    names = [variant.name for variant in target.card.variants]
    if str(against) in names:
        other = open_target(
            target.card, case=target.case.name, variant=str(against), arch=target.arch, seed=target.seed,
            inputs=target.inputs,
        )  # fmt: skip
    elif path.suffix == ".toml":
        card = load_card(path)
        case = target.case.name if any(one.name == target.case.name for one in card.cases) else ""
        if not case:
            known = [one.name for one in card.cases]
            hint = did_you_mean(target.case.name, known)
            raise ConfigurationError(f"{path}: no case '{target.case.name}'", hint=hint)
        other = open_target(card, case=case, arch=target.arch, seed=target.seed, inputs=target.inputs)
    else:
        raise ConfigurationError(
            f"'{against}' is no variant of this card, no card (.toml) and no results (.npz)",
            hint=did_you_mean(str(against), names),
        )
    made = type(session)(other)
    made.run_to(end=True)
    if made.moment.reason in ("fault", "stuck"):
        what = "dies" if made.moment.reason == "fault" else "does not end"
        raise ConfigurationError(f"{other.title} {what}: {made.moment.words}", hint="debug that one first")
    verdict = judge_case(made.case)
    outputs = {role: array.copy() for role, array in made.case.outputs().items()}
    return OtherRun(other.title, outputs, verdict.judgements, made)


def _recorded(session: Session, path: Path) -> OtherRun:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}", hint="write it with np.savez(path, o=…)") from None
    outputs: dict[str, NDArray[Any]] = {}
    for role, mine in session.case.outputs().items():
        name = session.case.argument_of(role).spec.name
        found = arrays.get(role, arrays.get(name))
        if found is None:
            continue
        if found.shape != mine.shape or found.dtype.itemsize != mine.dtype.itemsize:
            raise ConfigurationError(
                f"{path}: '{role}' is {found.dtype} {found.shape}; this case has {mine.dtype} {mine.shape}",
                hint="record the same case",
            )
        outputs[role] = np.ascontiguousarray(found).view(mine.dtype)
    if not outputs:
        raise ConfigurationError(f"{path}: none of the outputs is in it", hint=f"it holds {', '.join(arrays)}")
    return OtherRun(path.name, outputs, None)


def to_difference(session: Session) -> RunDifference:
    """Go to the first tile or stored value in which the session differs from its other run.

    Tiles are compared when both runs multiply as often in the same blocks and warps. Values count as different beyond
    both rounding bounds; against a GPU's results when a bit differs.

    Raises:
        ConfigurationError: there is no other run, or they do not differ.
    """
    other = session.other
    if other is None:
        raise ConfigurationError("nothing to compare with", hint="start with --against VARIANT, CARD or results.npz")
    tile = _first_tile(session, other.session) if other.session is not None else None
    if tile is not None:
        return tile
    masks = _masks(session, other)
    found = first_store(session.machine, session.case, masks) if any(m.any() for m in masks.values()) else None
    if found is None:
        session.run_to(end=True)
        raise ConfigurationError(
            f"no output differs from {other.name}", hint="compare with another variant, card or file"
        )
    time, role, index = found
    mine, theirs = session.case.outputs()[role][index], other.outputs[role][index]
    words = f"{element_name(session.case, role, index)} becomes {float(mine):.6g}; {other.name} has {float(theirs):.6g}"
    return RunDifference("value", words, session.arrive(time, "difference", words))


def _masks(session: Session, other: OtherRun) -> dict[str, NDArray[np.bool_]]:
    run = session.evidence.run
    if run.error is not None:
        raise run.error
    mine = run.case.outputs()
    if other.judgements is None:
        return {role: _bits(mine[role]) != _bits(theirs) for role, theirs in other.outputs.items()}
    verdict = judge_case(run.case)
    found = {}
    for role, theirs in other.outputs.items():
        if role not in mine or role not in verdict.judgements or mine[role].shape != theirs.shape:
            continue
        own = verdict.judgements[role]
        wide = type(own)(own.bound + other.judgements[role].bound, own.nonfinite_ok)
        values = theirs.astype(np.float64)
        found[role] = wrong_elements(mine[role], values, wide, element=run.case.elements()[role], unwritten=None)
    return found


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def _first_tile(session: Session, other: Session) -> RunDifference | None:
    """The first multiplication whose result differs, where both runs make the same ones; None otherwise."""
    for one in (session, other):
        one.seek(0)
    for _ in range(_MOST_TILES):
        mine, theirs = _next_tile(session), _next_tile(other)
        if mine is None or theirs is None:
            return None
        if mine.values.shape != theirs.values.shape or (mine.block, mine.warp) != (theirs.block, theirs.warp):
            return None
        a, b = mine.values.astype(np.float64), theirs.values.astype(np.float64)
        largest = max(float(np.nanmax(np.abs(b), initial=0.0)), float(np.nanmax(np.abs(a), initial=0.0)))
        with np.errstate(invalid="ignore"):
            off = (np.abs(a - b) > _TILE_PART * largest) | (np.isnan(a) != np.isnan(b))
        if off.any():
            row, column = map(int, np.argwhere(off)[0])
            here, there = a[row, column], b[row, column]
            words = f"the result differs at ({row}, {column}): {here:.6g}; {other.target.title} has {there:.6g}"
            moment = session.arrive(session.time - 1, "difference", words, mine.warp)
            return RunDifference("tile", words, moment, mine, theirs)
    return None


def _next_tile(session: Session) -> FragmentView | None:
    moment = session.run_to(tensor_op=1) if session.lines.multiplies else None
    if moment is None or moment.reason != "instruction" or moment.pc is None:
        return None
    pc, warp = moment.pc, session.warp
    session.machine.seek(session.time + 1)
    return session.view(pc, "d", warp)
