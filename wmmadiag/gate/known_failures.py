"""A baseline: failures that are known and accepted for a while, each with its reason and the day on which that ends.

A TOML file that people edit. An entry accepts exactly the failures that it lists: a case that fails in another way,
too, is a new failure.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place
from wmmadiag.results.model import CaseResult
from wmmadiag.results.text import one_line
from wmmadiag.subject.card_files.table import Table
from wmmadiag.subject.card_files.toml import read_table

FORMAT = 1
DAYS = 30
"""Until an entry that names no other day expires, when it is written."""
_EXAMPLE = "expires = 2030-01-31"
_KEYS = ("card", "arch", "variant", "cases", "failures", "reason", "expires")


@dataclass(frozen=True, slots=True)
class KnownFailures:
    """Failures of one kernel that are accepted."""

    card: str  # path relative to the baseline's folder, with forward slashes
    # arch, variant: "" for any
    arch: str
    variant: str
    cases: tuple[str, ...]  # names; empty for any
    failures: tuple[str, ...]  # what they may fail with, as `failures_of` names it
    reason: str  # why it is accepted
    expires: datetime.date  # the last day on which it is
    place: Place  # of the entry in the file

    def fits(self, card: str, arch: str, variant: str, case: str) -> bool:
        """Whether it speaks of this case."""
        return (
            self.card == card
            and self.arch in ("", arch)
            and self.variant in ("", variant)
            and (not self.cases or case in self.cases)
        )


def failures_of(case: CaseResult) -> tuple[str, ...]:
    """What a case fails with, as stable names, sorted; empty for one that passed.

    "wrong-output O", "overwritten Q", "races/missing-barrier", "fault out-of-bounds", "undecided unsupported".
    """
    if case.status == "passed":
        return ()
    found = {f"{one.check}/{one.kind}" for one in case.findings if one.level == "error"}
    found |= {
        f"wrong-output {one.output}" + ("" if one.against == "reference" else f" against {one.against}")
        for one in case.observations
        if one.wrong
    }
    found |= {f"overwritten {one.argument}" for one in case.overwritten}
    if case.problem is not None:
        word = {"failed": "fault", "undecided": "undecided"}.get(case.status, "error")
        found.add(f"{word} {case.problem.kind}")
    return tuple(sorted(found or {case.status}))


def read_baseline(path: Path) -> tuple[KnownFailures, ...]:
    """The entries of a baseline.

    Raises:
        ConfigurationError: it cannot be read, or an entry is wrong or lacks its reason or its day; with the line.
    """
    hint = "write one with `wmmadiag check … --write-baseline FILE --reason TEXT`"
    table = read_table(path, "the baseline", hint, "write it anew: --write-baseline FILE")
    if "format" not in table:
        raise ConfigurationError("this TOML file is no baseline of wmmadiag", place=table.place(), hint=hint)
    if table.integer("format", FORMAT) != FORMAT:
        raise table.error("format", f"this wmmadiag reads baselines of format {FORMAT}", "update wmmadiag")
    table.check_keys(("format", "known"))
    return tuple(_entry(one) for one in table.tables("known"))


def _entry(table: Table) -> KnownFailures:
    table.check_keys(_KEYS)
    expires: object = table.content.get("expires")
    for key, example in (
        ("card", 'card = "kernels/attn.toml"'),
        ("failures", 'failures = ["wrong-output O"]'),
        ("reason", 'reason = "mended in the next release"'),
        ("expires", _EXAMPLE),
    ):
        if key not in table:
            raise ConfigurationError(
                f"{table.title()} lacks '{key}'", place=table.place(), hint=f"add, for example: {example}"
            )
    if not table.string("reason").strip():
        raise table.error("reason", "a failure is accepted for a reason, and this one is empty")
    if isinstance(expires, str):
        try:
            expires = datetime.date.fromisoformat(expires)
        except ValueError:
            raise table.error("expires", f"'{str(expires)[:40]}' is no date", f"write {_EXAMPLE}") from None
    if isinstance(expires, datetime.datetime):
        expires = expires.date()
    if not isinstance(expires, datetime.date):
        raise table.error("expires", "'expires' must be a date", f"write {_EXAMPLE}")
    failures = tuple(table.strings("failures"))
    if not failures:
        raise table.error("failures", "the list of accepted failures is empty")
    return KnownFailures(
        card=table.string("card"),
        arch=table.string("arch"),
        variant=table.string("variant"),
        cases=tuple(table.strings("cases")),
        failures=failures,
        reason=table.string("reason"),
        expires=expires,
        place=table.place(),
    )


def relative_card(card: str | Path, baseline: Path) -> str:
    """A card's path as a baseline names it."""
    absolute, folder = os.path.abspath(card), os.path.abspath(baseline.parent)  # noqa: PTH100, links stay as named
    try:
        return Path(os.path.relpath(absolute, folder)).as_posix()
    except ValueError:  # another drive
        return Path(absolute).as_posix()


def rendered(entries: Sequence[KnownFailures]) -> str:
    """A baseline's text."""
    lines = [
        "# Failures that `wmmadiag check --baseline` accepts: each with its reason, until its day.",
        f"format = {FORMAT}",
    ]
    for one in entries:
        lines += ["", "[[known]]", f"card = {_quoted(one.card)}"]
        if one.arch:
            lines.append(f"arch = {_quoted(one.arch)}")
        if one.variant:
            lines.append(f"variant = {_quoted(one.variant)}")
        if one.cases:
            lines.append(f"cases = {_quoted_all(one.cases)}")
        lines.append(f"failures = {_quoted_all(one.failures)}")
        lines += [f"reason = {_quoted(one.reason)}", f"expires = {one.expires.isoformat()}"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML basic string: its escapes are those of JSON, once what cannot be shown is spelled out."""
    return json.dumps(one_line(text), ensure_ascii=False)


def _quoted_all(texts: Sequence[str]) -> str:
    return "[" + ", ".join(map(_quoted, texts)) + "]"
