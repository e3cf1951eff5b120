"""A session on wrong kernels reaches the fault by the path of docs/debugger.md: on one of each cause in each family.

`departure` in the first case that departs, then `why` and at most twice more `why`; a kernel that cannot be launched is
refused at once. The truth about each is in its .truth.toml (kernels/README.md); `python benchmarks/debugger.py --wrong`
walks to all of them. The prompt runs in this process, where other tests have compiled these kernels; on the first one
of each family it is a user's, in a real terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from debugged import ATTENTION, KERNELS

import wmmadiag
from wmmadiag.debugger.interpreter import Interpreter
from wmmadiag.debugger.prompt import Prompt

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TRUTHS = sorted(KERNELS.glob("*/wrong/*.truth.toml"))
_CAUSES = {path: tomllib.loads(path.read_text("utf-8"))["cause"] for path in TRUTHS}
OF_EACH_CAUSE = [*{(path.parent, _CAUSES[path]): path for path in reversed(TRUTHS)}.values()]
FIRST = [*{path.parent: path for path in reversed(TRUTHS)}.values()]
"""One of each family."""
PROMPT = "(wmmadiag) "
_LOOKS = 3
_AT = re.compile(r"\.cuh?:(\d+)")
_LISTED = re.compile(r"^[ =≠]? *(\d+)  ", re.MULTILINE)


class Typed(Protocol):
    """A session that is typed into."""

    def type(self, line: str) -> str:
        """What a line answers."""


class Here:
    """A prompt in this process."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._prompt = Prompt(Interpreter(wmmadiag.debug(ATTENTION)), self._said.append)

    def type(self, line: str) -> str:
        """What a line answers."""
        self._said.clear()
        assert self._prompt.run([line]) is None
        return "\n".join(self._said)


class Terminal:
    """A session in a pseudo-terminal, as a user has it."""

    def __init__(self) -> None:
        pexpect = pytest.importorskip("pexpect")
        environment = dict(os.environ, TERM="dumb", PYTHONPATH=str(KERNELS.parent), PYTHONUTF8="1")
        self._child: Any = pexpect.spawn(
            sys.executable, ["-m", "wmmadiag", "debug", str(ATTENTION)], env=environment, encoding="utf-8",
            timeout=120, dimensions=(200, 400), echo=False,
        )  # fmt: skip
        self._child.delaybeforesend = None  # it echoes nothing: no line need wait for that to be set
        self._child.expect_exact(PROMPT)

    def type(self, line: str) -> str:
        """What a line answers."""
        self._child.sendline(line)
        self._child.expect_exact(PROMPT)
        return str(self._child.before).replace("\r\n", "\n")

    def leave(self) -> int:
        """Quit; the exit code."""
        self._child.sendline("quit")
        self._child.expect(_eof())
        self._child.close()
        return int(self._child.exitstatus)


def _eof() -> Any:
    import pexpect

    return pexpect.EOF


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    assert made.leave() == 0


@pytest.fixture(scope="module")
def here() -> Here:
    return Here()


def path_to(session: Typed, card: Path) -> Iterator[set[int]]:
    """The lines that the short path names, one command after the other."""
    shown = session.type(f"card {card}")
    if shown.startswith("error: "):
        assert card.with_suffix(".cu").name in shown, shown
        yield {*map(int, _AT.findall(shown))}
        return
    departed = session.type("departure")
    if departed.startswith("error: it does not depart"):
        cases = re.findall(r"^  (\S+)$", session.type("case"), re.MULTILINE)
        for case in cases:
            assert not session.type(f"case {case}").startswith("error: ")
            departed = session.type("departure")
            if not departed.startswith("error: it does not depart"):
                break
    assert not departed.startswith("error: "), departed
    yield {*map(int, _AT.findall(departed))}
    for _ in range(_LOOKS):
        yield {*map(int, _LISTED.findall(session.type("why")))}


def held(session: Typed, truth: Path) -> None:
    """The path on one kernel names a line of its fault."""
    facts = tomllib.loads(truth.read_text("utf-8"))
    lines = {*facts["lines"], *facts.get("second", {}).get("lines", [])}
    card = truth.with_name(truth.name.removesuffix(".truth.toml") + ".toml")
    seen: list[set[int]] = []
    for named in path_to(session, card):
        if named & lines:
            return
        seen.append(named)
    raise AssertionError(f"{sorted(lines)} in none of {[sorted(one) for one in seen]}")


@pytest.mark.parametrize("truth", OF_EACH_CAUSE, ids=lambda path: path.name.removesuffix(".truth.toml"))
@pytest.mark.corpus
def test_a_session_reaches_the_fault(here: Here, truth: Path) -> None:
    held(here, truth)


@pytest.mark.subprocess
@pytest.mark.parametrize("truth", FIRST, ids=lambda path: path.name.removesuffix(".truth.toml"))
def test_a_real_session_reaches_the_fault(terminal: Terminal, truth: Path) -> None:
    held(terminal, truth)
