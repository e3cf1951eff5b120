"""All changes of a source, each with how likely it is before any run: another process lists them while cases run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.operators.places import Range
from wmmadiag.diagnose.operators.registry import changes
from wmmadiag.diagnose.ranking import Prior, priors
from wmmadiag.processes.collection import paused_collection


@dataclass(frozen=True, slots=True)
class Listing:
    """What the changes are of."""

    texts: tuple[
        tuple[str, bytes], ...
    ]  # the source and the user's headers, by path, in the order in which they are read
    entries: tuple[str, ...]  # the kernels

    @paused_collection()
    def made(
        self, *, places: Iterable[Range] | None = None, wider: bool = False, known: Iterable[Change] | None = None
    ) -> list[Prior]:
        """The changes, in the order in which operators make them; arguments and errors of `registry.changes`."""
        texts = dict(self.texts)
        every = list(changes(texts, self.entries, places=places, wider=wider, known=known))
        return priors(every, {file: parse(text, file) for file, text in texts.items()})
