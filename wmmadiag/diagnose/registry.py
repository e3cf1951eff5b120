"""The hypotheses that there are, found by walking `hypotheses/`.

To add one, write one module there that defines `HYPOTHESIS = Hypothesis(…)`. Its docstring says what goes wrong, in a
few sentences, then holds a section "Bad:" and a section "Good:" with an indented example each; `docs/hypotheses.md` is
made of them by `python -m wmmadiag.diagnose.document`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from wmmadiag.diagnose.claim import Answer
from wmmadiag.diagnose.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A possible cause that can be tested.

    Attributes:
        id: stable, "leading-dimension".
        title: what it says, one clause.
        test: evidence → claims, or why it does not hold. Cheap: it reads what was gathered.
        suspected: how readily people suspect it first (higher: sooner); refutations are shown in this order.
    """

    id: str
    title: str
    test: Callable[[Evidence], Answer]
    suspected: int = 0


@cache
def all_hypotheses() -> Mapping[str, Hypothesis]:
    """Every hypothesis by id.

    Raises:
        ValueError: a module defines none, or an id that its name does not have.
    """
    package = importlib.import_module("wmmadiag.diagnose.hypotheses")
    found = {}
    for name in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        module = importlib.import_module(f"{package.__name__}.{name}")
        one = getattr(module, "HYPOTHESIS", None)
        if not isinstance(one, Hypothesis) or one.id != name.replace("_", "-"):
            raise ValueError(f"{module.__file__} defines no hypothesis {name.replace('_', '-')!r}")
        found[one.id] = one
    return found
