"""What a program prints of its own comparison, where its exit status is 0 whatever comes out.

Nothing is read in a program's text alone: what it prints counts where it prints otherwise once its kernels do nothing.
It says that all is right where it has a word for that then and there alone, or none for wrong where it has one without
its kernels, or where the largest error that it names is nothing beside the one without them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RIGHT = _words(
    "pass passes passed ok okay success successful successfully succeed succeeds succeeded correct correctly match "
    "matches matched matching valid verified identical equal agree agrees good"
)
_WRONG = _words(
    "fail fails failed failing failure failures wrong incorrect incorrectly mismatch mismatches mismatched mismatching "
    "differ differs"
)
_ERROR = _words("error errors err errs diff diffs difference differences deviation deviations discrepancy")
_NOT = _words("not no never isn doesn don didn aren without un")
_LARGEST = _words("max maximum maximal largest worst biggest greatest maxerr maxdiff maxabs linf")
# words around an error that is a number, not an event: "mean relative error: 1e-4", "errors = 0"
_MEASURES = _LARGEST | _words(
    "abs absolute rel relative mean avg average rms rmse mse l2 l1 total num number count sum norm normalized"
)
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?%?|nan|inf\w*)(?![A-Za-z_])")
_WORD = re.compile(r"[A-Za-z]+(?:[A-Z]?[a-z]+)*|#")
# "0 mismatches", "3 passed, 0 failed", "errors: 0", "mismatches 0" at the end: a zero that numbers something, "kernel 0
# failed", is none
_COUNTED = "failures|errors|mismatches|mismatched|differences|diffs"
_NONE = re.compile(
    rf"(?<![\w.])0\s+(?:\w+\s+)?(?:{_COUNTED})\b|(?:^|[,;/(|])\s*0\s+(?:\w+\s+)?(?:failed|wrong|incorrect)\b"
    rf"|\b(?:{_COUNTED}|failed|wrong|incorrect)\s*[:=]\s*0(?![\w.])|\b(?:{_COUNTED})\s+0(?=\s*(?:$|[;)|]))",
    re.IGNORECASE | re.MULTILINE,
)
_PLACE = re.compile(r"%[-+ #0]*[\d.*]*[hlzjtL]*[a-zA-Z]|\\[ntr]|\\(?:033|x1b)\[[0-9;]*m")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ROUNDED = 2.0**-16
"""The largest error beside that of a kernel which does nothing. What is rounded to 16 bits is not so near: nothing
tells that from a mistake which is as small."""


_NEAR = 2.0**-8
"""The largest error beside that of a kernel which does nothing, as rounding to 16 bits may make it."""


@dataclass
class _Told:
    """What the lines of a text say, each without its numbers."""

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    largest: list[tuple[str, float]] = field(default_factory=list)  # errors by their lines


def says_wrong(text: str) -> bool:
    """Whether a program's text has a word for wrong."""
    return bool(_told(text).wrong)


def says_right(text: str, without: str) -> bool:
    """Whether a program's text says that all is right, and another one of the same program does not.

    Args:
        text: with its kernels. without: where they do nothing, or a part.
    """
    own, other = _told(text), _told(without)
    if own.wrong:
        return False
    if own.right - other.right or other.wrong:
        return True
    if not own.largest or [name for name, _ in own.largest] != [name for name, _ in other.largest]:
        return False
    pairs = [(value, beside) for (_, value), (_, beside) in zip(own.largest, other.largest, strict=True)]
    changed = [(value, beside) for value, beside in pairs if value != beside]  # others are of other kernels
    return bool(changed) and all(value <= _ROUNDED * beside for value, beside in changed)


def praises_less(text: str, without: str) -> bool:
    """Whether a line for right of a program's text is not there without one of its kernels: it says so of that one."""
    return bool(_told(text).right - _told(without).right)


def is_rounding(text: str, without: str) -> bool:
    """Whether a program's text says that something is wrong where the largest errors that it names are small beside
    those without its kernels: that may be no more than rounding, and a comparison that is too strict.

    Args:
        text, without: as of `says_right`.
    """
    own, other = (_told(one).largest for one in (text, without))
    names = [[" ".join(word for word in name.split() if word not in _RIGHT | _WRONG) for name, _ in one]
             for one in (own, other)]  # fmt: skip
    changed = [(value, beside) for (_, value), (_, beside) in zip(own, other, strict=False) if value != beside]
    return names[0] == names[1] and bool(changed) and all(value <= _NEAR * beside for value, beside in changed)


def lines_for_wrong(text: str) -> Counter[str]:
    """The lines of a text that say that something is wrong, as they stand."""
    plain = _COLOURS.sub("", text).splitlines()
    return Counter(one for one in plain if _meaning(_split(_NONE.sub(", correct ", one))[0]) == "wrong")


def wrong_lines(text: str) -> list[frozenset[str]]:
    """The words of the lines of a text that say that something is wrong."""
    return [frozenset(line.split()) for line in _told(text).wrong]


def meant_by(texts: Sequence[str]) -> str:
    """What literals of a program say, those of one branch: "right", "wrong", or "" for neither, or both."""
    plain = [_told(_PLACE.sub(" # ", one)) for one in texts]
    right, wrong = any(one.right for one in plain), any(one.wrong for one in plain)
    return "" if right == wrong else "right" if right else "wrong"


def words_of(literal: str) -> frozenset[str]:
    """The words of a literal, places for numbers and names aside."""
    return frozenset(_split(_PLACE.sub(" # ", literal))[0]) - {"#"}


def _split(line: str) -> tuple[list[str], list[str]]:
    """The words of a line, with # for each number, and the numbers."""
    numbers = _NUMBER.findall(line)
    return [one.lower() for one in _WORD.findall(_NUMBER.sub(" # ", line))], numbers


def _told(text: str) -> _Told:
    found = _Told()
    for line in _COLOURS.sub("", text).splitlines():
        words, numbers = _split(_NONE.sub(", correct ", line))
        meant = _meaning(words)
        if meant == "wrong":
            found.wrong[" ".join(words)] += 1
        elif meant == "right":
            found.right[" ".join(words)] += 1
        found.largest += [(" ".join(words), one) for one in _largest(words, numbers)]
    return found


def _meaning(words: list[str]) -> str:
    """ "right", "wrong", or "" for a line that says neither."""
    right = False
    for at, word in enumerate(words):
        negated = bool(_NOT & {*words[max(0, at - 2) : at]})
        if word in _RIGHT:
            if negated:
                return "wrong"
            right = True
        elif word in _WRONG or (word in _ERROR and not _is_measure(words, at)):
            if negated:  # "no mismatches"
                right = True
            elif word in _WRONG or _is_event(words, at):
                return "wrong"
    return "right" if right else ""


def _is_event(words: list[str], at: int) -> bool:
    """Whether an error is what a line tells of: "Error at index 5", "ERROR: …", "3 errors"."""
    return at == 0 or words[at - 1] == "#" or words[at + 1 : at + 2] in (["at"], ["in"])


def _is_measure(words: list[str], at: int) -> bool:
    """Whether a word for an error names a number: "max abs error: 1e-5"."""
    return bool(_MEASURES & {*words[max(0, at - 3) : at], *words[at + 1 : at + 3]})


def _largest(words: list[str], numbers: list[str]) -> list[float]:
    """The largest errors that a line names: the first number behind each."""
    found = []
    for at, word in enumerate(words):
        named = word in _ERROR or word in ("maxerr", "maxdiff")
        if not named or not _LARGEST & {*words[max(0, at - 3) : at + 1], *words[at + 1 : at + 2]}:
            continue
        behind = next((place for place in range(at + 1, min(at + 4, len(words))) if words[place] == "#"), None)
        if behind is not None:
            found.append(_value(numbers[words[: behind + 1].count("#") - 1]))
    return found


def _value(text: str) -> float:
    try:
        value = abs(float(text.rstrip("%")))
    except ValueError:
        return float("inf")
    return value if value == value else float("inf")
