"""References in Python, called in a child process: whatever they do, this one lives and says so.

A reference is the user's code or a library's. It may hang, crash, leave by `os._exit`, or register what does so later;
none of that may end a gate's run, least of all with exit code 0.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from wmmadiag.errors import BudgetError, WmmadiagError
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.processes.child import Child, ChildEnded, ChildSilent
from wmmadiag.processes.deadline import out_of_time, seconds_left
from wmmadiag.subject.python_reference import python_reference
from wmmadiag.subject.reference_case import ReferenceCase

SECONDS = 300.0
"""How long a call may take where nobody says; a reference that takes longer is taken for one that hangs."""

_CHILD = Child("wmmadiag.subject.reference_process:answer")
_LOCK = threading.Lock()
_OWNER = os.getpid()


def asked_reference(case: ReferenceCase) -> tuple[dict[str, Doubles], dict[str, Doubles]]:
    """`python_reference`, in the child.

    Raises:
        ConfigurationError: as there; or the process ended, or gave no answer in time.
        BudgetError: the command's time is over.
    """
    expected, bounds = _asked(python_reference, case)
    return expected, bounds


def _asked(function: Callable[[ReferenceCase], Any], case: ReferenceCase) -> Any:
    """What a function answers in the child."""
    card = case.card
    name = card.computes.reference or card.computes.python
    seconds = seconds_left(SECONDS)
    with _LOCK:
        try:
            answer = _CHILD.ask((function, (case.plain(),)), seconds)
        except ChildSilent:
            if seconds < SECONDS:
                raise out_of_time() from None
            raise BudgetError(
                f"the reference {name} gave no answer within {SECONDS:g} s",
                place=card.computes.place,
                hint="call it by hand with a small case; does it wait for something?",
            ) from None
        except ChildEnded as ended:
            raise card.computes.error(
                f"the reference {name} ended its process: {ended.words() or 'nobody knows how'}",
                "call it by hand with a small case: it has to return its result",
            ) from None
    if isinstance(answer, WmmadiagError):
        raise answer
    return answer


def answer(connection: Connection) -> None:
    """Call references until the connection closes.

    Raises:
        EOFError: it is closed.
    """
    while True:
        request = connection.recv()
        try:
            function, given = request
            connection.send(function(*given))
        except WmmadiagError as error:
            error.__cause__ = error.__context__ = None  # the user's own exceptions are not known on the other side
            connection.send(error)


@atexit.register
def stop() -> None:
    """End the child."""
    if os.getpid() == _OWNER:
        _CHILD.stop()
