"""What a source does not tell, as a question: with the place, the cause, and the options that would say it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from wmmadiag.csource.lexical import macros
from wmmadiag.errors import ConfigurationError, QuestionError, did_you_mean
from wmmadiag.hostcode.program import HostProgram
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts.model import CardDraft, Open
from wmmadiag.subject.drafts.recognise import Recognised


def opinion(found: Recognised) -> str:
    """The beginning of a sentence that `because` ends."""
    if not found.likely:
        return "nothing speaks for an operation:"
    return f"{found.operation} is the likeliest, {'because' if found.sure else 'but'}"


def asked(
    path: Path, entry: str, found: Recognised, tried: Sequence[str] = (), *, named: bool = False
) -> QuestionError:
    """Nobody said what a kernel computes, and the source does not tell.

    Args:
        entry: the kernel. named: whether it was chosen by that name, without which another one would be checked.
        tried: what else was, each a clause.
    """
    beside = path.with_suffix(".toml")
    own = f"--entry {shlex.quote(entry)} " if named else ""
    hint = f"check its card: wmmadiag check {shlex.quote(str(beside))}; or add " if beside.is_file() else "add "
    return QuestionError(
        f"{path}: '{entry}': what should the kernel compute?",
        detail="\n".join([f"{opinion(found)} {found.because}", *tried]),
        hint=f"{hint}{own}--computes with an operation (docs/cards.md) or a formula, 'C[m,n] = sum_k A[m,k] * B[k,n]'; "
        "for anything else `wmmadiag init --computes python` drafts a card with a function of yours",
    )


def check_operation(operation: str) -> None:
    """Refuse what no card can be derived for.

    Raises:
        ConfigurationError: it is a Python function, or no operation.
    """
    if operation == "python":
        raise ConfigurationError(
            "a Python reference needs a card", hint="write one with `wmmadiag init KERNEL.cu --computes python`"
        )
    known = [name for name in OPERATIONS if name != "python"]
    if operation not in known:
        raise ConfigurationError(
            f"unknown operation '{operation}'",
            hint=f"{did_you_mean(operation, known)} (or a host function that stands in the source)",
        )


def check_symbols(given: Mapping[str, str]) -> None:
    """Refuse values that are made of names which no operation knows.

    Raises:
        ConfigurationError: there is one.
    """
    known = {*given}
    for one in OPERATIONS.values():
        known |= {*one.symbols, *one.parameters, *(name for case in one.cases for name in case)}
    for name, text in given.items():
        if unknown := sorted(set(names_in(text)) - known):
            raise ConfigurationError(
                f"--symbol {name}={text}: nothing is called '{unknown[0]}'",
                hint=f"give a number, --symbol {name}=256, or an expression over other sizes",
            )


def check_macros(given: Mapping[str, str], program: HostProgram | None) -> None:
    """Refuse a macro that the source itself defines in any case: the compiler would take the source's.

    Raises:
        ConfigurationError: there is one.
    """
    for source in program.sources if program is not None and given else ():
        own = macros(source.data)
        for name in given.keys() & own.keys():
            asked_for = rb"#\s*ifndef\s+%b\b|defined\s*\(?\s*%b\b" % (name.encode(), name.encode())
            if re.search(asked_for, source.data) is None and own[name].body != given[name]:
                raise ConfigurationError(
                    f"the source defines {name} itself, so that -D {name}={given[name]} changes nothing",
                    place=source.place_at(own[name].start),
                    hint=f"leave it out, or write `#ifndef {name}` before the line",
                )


class NotDerived(QuestionError):
    """Something of a kernel that its source does not tell; `drafted`: with what is open of it."""

    drafted: CardDraft


def not_derived(
    drafted: CardDraft, path: Path, assumed: tuple[str, ...], parts: Sequence[str] = (), first: Sequence[Open] = ()
) -> NotDerived:
    """What to raise where something of a draft is open.

    Args:
        parts: the kernels that it is of, where they are several.
        first: what is asked, one question; the first thing that is open, if nothing else is known to decide.
    """
    first = first or drafted.open[:1]
    others = [one.what for one in drafted.open if one not in first]
    options = list(dict.fromkeys(one.option for one in first if one.option))
    shown = " ".join(f"{one}…" if one.endswith("=") else one if " " in one else f"{one} …" for one in options)
    instead = f"write a card with `wmmadiag init {shlex.quote(str(path))} --entry {shlex.quote(drafted.entry)}`"
    if not options:
        instead += ", whose TODOs ask for it"
    if parts:  # a card is of one kernel
        instead = f"check one of its kernels alone: --entry {shlex.quote(parts[0])}"
    lines = [f"  {one}" for one in dict.fromkeys(one.why for one in first)]
    lines += [f"  open besides, and tried where that can be: {', '.join(others)}"] * bool(others)
    error = NotDerived(
        f"{path}: the kernel '{drafted.entry}': {_question(first[0])}",
        detail="\n".join([*lines, *(f"  {one}" for one in assumed)]),
        hint=f"give {shown}, or {instead}" if shown else instead,
    )
    error.drafted = drafted
    return error


def _question(one: Open) -> str:
    if one.about == "launch":
        return "how is it launched?"
    if one.about == "operation":
        return f"what should it compute? It lacks {one.what}"
    if one.about == "instantiation":
        return f"what are {one.what}?"
    return f"{one.what}?" if one.what.startswith("which") else f"what is {one.what}?"
