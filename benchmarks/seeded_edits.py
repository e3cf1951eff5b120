"""Single edits at random, as people slip: another name, another number, a line less.

They are made line by line with regular expressions and know nothing of trees, types or operators, so that what the
operators and the ranking make of them says something. Many do not compile, or change nothing; whoever uses them runs
them first.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[A-Za-z_]\w*")
_DECLARED = re.compile(r"\b(?:int|unsigned|size_t|long)\s+(\w+)")
_CONSTANT = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_DECLARES = re.compile(r"\s*(?:const|constexpr|static|int|float|half|auto|unsigned|size_t|long|wmma::fragment)\b")
_PLAIN = re.compile(r"\s+[^/#{}]*;\s*$")
_NOT_ALONE = re.compile(r"\s*(?:return|using|extern|struct|typedef|break|continue|__shared__)\b")
_SYNCHRONISES = re.compile(r"sync|wait|commit")
_OPERATIONS = {"+": "-", "-": "+", "*": "+", "/": "%", "%": "/"}
_COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_TRIES = 60
_IN_KERNEL = 0.7
"""Share of the edits that are in the kernel itself; the others may be in its helpers and constants, too."""

Edit = Callable[[re.Match[str], random.Random, Sequence[str]], str]


def _variable(found: re.Match[str], chance: random.Random, names: Sequence[str]) -> str:
    return chance.choice(names) if found[0] in names else found[0]


def _number(found: re.Match[str], chance: random.Random, _: Sequence[str]) -> str:
    value = int(found[0])
    return str(chance.choice([one for one in (value + 1, value - 1, value * 2, value // 2, 0, 8, 16, 32) if one >= 0]))


def _turned(found: re.Match[str]) -> str:
    return f"{found[2]}, {found[1]}"


# kind → weight, what is looked for in a line, and what stands there instead.
_IN_LINE: Mapping[str, tuple[int, str, Edit]] = {
    "variable": (9, _WORD.pattern, _variable),
    "number": (4, r"(?<![\w.])\d{1,4}(?![\w.])", _number),
    "operation": (2, r"(?<=[\w)\]] )[+\-*/%](?= [\w(])", lambda found, _, __: _OPERATIONS[found[0]]),
    "factor gone": (2, r" \* (?:[A-Za-z_]\w*|\d+)(?![\w(\[.:<])", lambda _, __, ___: ""),
    "term gone": (2, r" \+ (?:[A-Za-z_]\w*|\d+)(?![\w(\[.:<* ])", lambda _, __, ___: ""),
    "comparison": (2, r"(?<= )(?:<=|<|>=|>)(?= [\w(])", lambda found, _, __: _COMPARISONS[found[0]]),
    "condition gone": (1, r" && [^&|)?]+(?=[)?])", lambda _, __, ___: ""),
    "layout": (1, r"row_major|col_major", lambda found, _, __: ("row" if found[0][0] == "c" else "col") + "_major"),
    "assignment": (1, r"(?<= )\+=(?= )", lambda _, __, ___: "="),
    "start": (1, r"(?<=for \(int )(\w+) = 0", lambda found, _, __: f"{found[1]} = 1"),
    "function": (1, r"(?<=\b)max(?=f?\b)|(?<=f)max(?=f\b)", lambda _, __, ___: "min"),
    "indices": (1, r"\[([^\[\]]+)\]\[([^\[\]]+)\]", lambda found, _, __: f"[{found[2]}][{found[1]}]"),
    "arguments": (1, r"(?<=\()(\w+), (\w+)(?=[,)])", lambda found, _, __: _turned(found)),
    "buffer": (1, r" \^ 1\b| % 2\b| & 1\b", lambda _, __, ___: ""),
    "value": (1, r"\b\d+\.\d*f\b", lambda found, _, __: "0.5f" if found[0] != "0.5f" else "1.0f"),
    "axis": (1, r"(threadIdx|blockIdx)\.([xyz])", lambda found, _, __: f"{found[1]}.{'y' if found[2] == 'x' else 'x'}"),
}  # fmt: skip
_OF_LINES: Mapping[str, int] = {"statement gone": 3, "order gone": 3, "twice": 1, "exchanged": 1, "into the loop": 1}


@dataclass(frozen=True, slots=True)
class Seeded:
    """A source with one edit: its kind, the line, and the text."""

    kind: str
    line: int
    text: str


def seeded(text: str, kernel: str, chance: random.Random) -> Seeded | None:
    """One edit at random in the body of a kernel, or in what stands before it; None where its kind fits nowhere."""
    lines = text.split("\n")
    body_span = _body(lines, kernel)
    if body_span is None:
        return None
    span = body_span if chance.random() < _IN_KERNEL else (0, body_span[1])
    kinds = {kind: row[0] for kind, row in _IN_LINE.items()} | dict(_OF_LINES)
    kind = chance.choices(list(kinds), list(kinds.values()))[0]
    body = "\n".join(lines[body_span[0] : body_span[1]])
    names = sorted({*_DECLARED.findall(body), *_CONSTANT.findall(body)})
    for _ in range(_TRIES):
        at = chance.randrange(*span)
        made = _in_line(lines[at], kind, chance, names) if kind in _IN_LINE else None
        new = [made] if made is not None else _of_lines(lines, at, kind) if kind in _OF_LINES else None
        if new is not None:
            changed = "\n".join([*lines[:at], *new, *lines[at + len(new) - (kind == "twice") :]])
            if changed != text:
                return Seeded(kind, at + 1, changed)
    return None


def _body(lines: Sequence[str], kernel: str) -> tuple[int, int] | None:
    """The lines of a kernel's body, [first, end)."""
    begins = (at for at, line in enumerate(lines) if re.search(rf"\b{re.escape(kernel)}\b\s*\(", line))
    named = next(begins, None)
    if named is None:
        return None
    first = next((at for at in range(named, len(lines)) if "{" in lines[at]), named) + 1
    end = next((at for at in range(first, len(lines)) if lines[at].startswith("}")), len(lines))
    return (first, end) if first < end else None


def _in_line(line: str, kind: str, chance: random.Random, names: Sequence[str]) -> str | None:
    code, mark, comment = line.partition("//")
    _, pattern, edit = _IN_LINE[kind]
    first = code.find("=") + 1 if _DECLARES.match(code) else 0  # what is declared keeps its name
    if _DECLARES.match(code) and not first:
        return None
    found = [one for one in re.finditer(pattern, code) if one.start() >= first]
    if not found:
        return None
    one = chance.choice(found)
    new = code[: one.start()] + edit(one, chance, names) + code[one.end() :]
    return new + mark + comment if new != code else None


def _of_lines(lines: Sequence[str], at: int, kind: str) -> list[str] | None:
    line, after = lines[at], lines[at + 1] if at + 1 < len(lines) else ""
    if not _alone(line) or lines[at - 1].rstrip().endswith(")"):
        return None
    if kind == "order gone":
        return [""] if _SYNCHRONISES.search(line) and "mma" not in line else None
    if kind == "statement gone":
        return [""]
    if kind == "twice":
        return [line, line]
    if kind == "exchanged":
        return [after, line] if _alone(after) else None
    return [after, line] if re.match(r"\s*for .*\{\s*$", after) else None


def _alone(line: str) -> bool:
    """Whether a line is a whole statement that declares nothing."""
    code = line.partition("//")[0].rstrip()
    return bool(_PLAIN.match(code + "\n")) and not _DECLARES.match(code) and not _NOT_ALONE.match(code)
