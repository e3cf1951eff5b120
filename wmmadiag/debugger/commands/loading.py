"""Commands that choose what is debugged: another card, another case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.api import open_card
from wmmadiag.debugger.commands.command import Command, Reply
from wmmadiag.debugger.commands.running import moment_data
from wmmadiag.debugger.session import Session
from wmmadiag.debugger.target import Target
from wmmadiag.debugger.text import moment_text
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.find_cards import one_subject
from wmmadiag.subject.target import card_target

if TYPE_CHECKING:
    from wmmadiag.debugger.interpreter import Interpreter


def _loaded(interpreter: Interpreter, target: Target) -> Reply:
    lost = len(interpreter.breakpoints.all)
    interpreter.load(Session(target))
    moment = interpreter.session.moment
    lines = [target.title, *(["its breakpoints are gone"] if lost else []), moment_text(moment)]
    return Reply("\n".join(lines), moment_data(moment) | {"title": target.title, "cases": target.cases})


def _card(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    now = interpreter.session.target
    if not words:
        return Reply(f"{now.card.path}: {now.title}", {"card": str(now.card.path), "title": now.title})
    if len(words) > 2:
        raise ConfigurationError(f"card takes no '{words[2]}'", hint="card PATH [CASE]")

    card = open_card(one_subject(Path(words[0]).expanduser()))
    return _loaded(
        interpreter, now.other(card=card, case=words[1] if len(words) > 1 else "", arch=card_target(card, None))
    )


def _case(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    target = interpreter.session.target
    if not words:
        rows = [f"{'*' if name == target.case.name else ' '} {name}" for name in target.cases]
        return Reply("\n".join(rows), {"case": target.case.name, "cases": target.cases})
    if len(words) > 1:
        raise ConfigurationError(f"case takes no '{words[1]}'", hint="case NAME")
    return _loaded(interpreter, target.other(case=words[0]))


def keep(interpreter: Interpreter, words: Sequence[str] = ()) -> Reply:
    """Go on with the same source, compiled so that its variables keep their values."""
    from wmmadiag.debugger.kept import kept

    if words:
        raise ConfigurationError(f"keep takes no '{words[0]}'", hint="keep")
    session = kept(interpreter.session)
    points = interpreter.breakpoints.moved(session)
    interpreter.load(session)
    interpreter.breakpoints = points
    moment = session.moment
    text = f"compiled so that variables keep their values: times differ\n{moment_text(moment)}"
    return Reply(text, moment_data(moment) | {"kept": len(interpreter.session.target.kept)})


def _cases(interpreter: Interpreter) -> Sequence[str]:
    return interpreter.session.target.cases


GROUP = "what to debug"
COMMANDS = (
    Command("card", (), "[PATH [CASE]]", "debug another card or source; alone: which one this is", _card, GROUP),
    Command("keep", (), "", "compile it so that local variables keep their values, and come back here", keep, GROUP),
    Command("case", (), "[NAME]", "debug another case of the card; alone: list them", _case, GROUP, complete=_cases),
)
