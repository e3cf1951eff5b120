"""A run as SARIF 2.1.0 (OASIS standard), for code scanning: results on the lines of the .cu, rules, fixes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import msgspec

from wmmadiag.diagnose.names import every_name
from wmmadiag.report.marks import LineMark, marks
from wmmadiag.report.pages import address
from wmmadiag.results.run import Run
from wmmadiag.results.text import edits, one_line, split_place, visible

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_OTHER_RULES = {
    "wrong-output": "elements differ from the float64 reference by more than rounding can explain",
    "fault": "the launch died",
    "compile": "the source does not compile",
    "configuration": "the card, or what it names, is wrong",
    "unsupported": "the kernel uses what is not emulated",
    "budget": "the run used up its budget",
    "undecided": "the check could not decide",
}

_NOT_UTF8 = re.compile("[\ud800-\udfff]")
"""What stands for bytes of a file that are none."""
_REPORTS = "reading-a-report"
"""The page that tells of what is neither a check's nor a cause."""


def render(run: Run) -> str:
    """SARIF text, ending with a newline."""
    found = marks(run)
    rules = _rules(run, found)
    index = {rule["id"]: position for position, rule in enumerate(rules)}
    driver: dict[str, Any] = {"name": "wmmadiag", "rules": rules}
    version = run.versions.get("wmmadiag", "")
    if version:
        driver["version"] = version
    # Absolute addresses alone are taken here (3.19.20, 3.49.12).
    if address("index"):
        driver["informationUri"] = address("index")
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [_invocation(run)],
                "columnKind": "unicodeCodePoints",
                "artifacts": _artifacts(run),
                "results": [_result(mark, index) for mark in found],
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(log), indent=1).decode() + "\n"


def _rules(run: Run, found: Sequence[LineMark]) -> list[dict[str, Any]]:
    """One rule per id that occurs, described by the names of causes, and by the checks that the run holds."""
    checks = {rule.id: rule for rule in run.rules}
    names = {one.id: one for one in every_name()}
    rules = []
    for rule in dict.fromkeys(mark.rule for mark in found):
        family = rule.split("/")[0]
        summary = _OTHER_RULES.get(family) or rule
        made: dict[str, Any] = {"id": visible(rule)}
        if rule in names:
            summary = names[rule].title
            made["fullDescription"] = {"text": names[rule].help}
        if family in checks:
            summary = checks[family].summary
            if checks[family].help:
                made["fullDescription"] = {"text": visible(checks[family].help)}
        here = ("causes",) if rule in names else ("checks", family) if family in checks else (_REPORTS,)
        if address(*here):
            made["helpUri"] = address(*here)
        made["shortDescription"] = {"text": one_line(summary)}
        made.setdefault("fullDescription", {"text": f"{one_line(summary)}."})
        # What code scanning shows beside a result: of the description 1,024 characters, of the help all.
        made["help"] = dict(made["fullDescription"])
        made["fullDescription"]["text"] = _shortened(made["help"]["text"])
        rules.append(made)
    return rules


def _shortened(text: str) -> str:
    """A text of at most 1024 characters, cut behind a word."""
    return text if len(text) <= 1024 else text[:1022].rpartition(" ")[0] + " …"


def _result(mark: LineMark, index: Mapping[str, int]) -> dict[str, Any]:
    lines = [mark.message, *mark.more]
    result: dict[str, Any] = {
        "ruleId": visible(mark.rule),
        "ruleIndex": index[visible(mark.rule)],
        "level": mark.level,
        "message": {"text": visible("\n".join(lines))},
        "locations": [_location(mark.place)],
        "partialFingerprints": {"wmmadiag/v1": _fingerprint(mark)},
        "properties": {
            "kernel": visible(mark.kernel),
            "arch": visible(mark.arch),
            "cases": [visible(c) for c in mark.cases],
        },
    }
    if mark.accepted:
        result["suppressions"] = [{"kind": "external", "justification": visible(mark.accepted)}]
    if mark.other:
        result["relatedLocations"] = [{"id": 1, **_location(mark.other)}]
    change = mark.fix
    if change is not None and change.diff:
        replaced = _replacements(change.diff, split_place(mark.place).file)
        if replaced:
            result["fixes"] = [{"description": {"text": one_line(change.summary)}, "artifactChanges": replaced}]
    return result


def _fingerprint(mark: LineMark) -> str:
    """The same for the same trouble when lines have moved: rule, file, kernel and architecture."""
    parts = [mark.rule, split_place(mark.place).file, mark.kernel, mark.arch]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def _location(place: str) -> dict[str, Any]:
    taken = split_place(place)
    physical: dict[str, Any] = {"artifactLocation": _artifact(taken.file)}
    physical["region"] = {"startLine": taken.line or 1}  # of a whole file: code scanning shows nothing without a line
    if taken.line and taken.column:
        physical["region"]["startColumn"] = taken.column
    return {"physicalLocation": physical}


def _artifact(file: str) -> dict[str, Any]:
    """Relative paths are against the repository's root, as code scanning wants them."""
    path = PurePosixPath(file.replace("\\", "/"))
    uri = quote(str(path), safe="/-._~", errors="replace")
    return {"uri": f"file://{uri}"} if path.is_absolute() else {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _replacements(diff: str, file: str) -> list[dict[str, Any]]:
    """The lines that a diff replaces; none where they hold bytes that are no UTF-8, which no JSON can say."""
    if _NOT_UTF8.search(diff):
        return []
    replacements = []
    for edit in edits(diff, file):
        # From the start of the first line to the start of the line after the last: whole lines.
        region = {
            "startLine": edit.first, "startColumn": 1, "endLine": edit.first + len(edit.removed), "endColumn": 1,
        }  # fmt: skip
        replacement: dict[str, Any] = {"deletedRegion": region}
        if edit.added:
            replacement["insertedContent"] = {"text": "".join(line + "\n" for line in edit.added)}
        replacements.append(replacement)
    return [{"artifactLocation": _artifact(file), "replacements": replacements}] if replacements else []


def _artifacts(run: Run) -> list[dict[str, Any]]:
    sources = {one.path: one for kernel in run.kernels for one in kernel.sources}
    return [{"location": _artifact(path), "hashes": {"sha-256": one.sha256}} for path, one in sources.items()]


def _invocation(run: Run) -> dict[str, Any]:
    made: dict[str, Any] = {"executionSuccessful": not run.unchecked, "exitCode": run.exit_code}
    if run.command:
        made["commandLine"] = visible(run.command)
    if run.started:
        made["startTimeUtc"] = run.started
    if run.unchecked:
        made["toolConfigurationNotifications"] = [
            {"level": "error", "message": {"text": visible(one.message)}, "locations": [_location(one.path)]}
            for one in run.unchecked
        ]
    return made
