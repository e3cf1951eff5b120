"""A source as it was given, from which a card is to be derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.drafts.model import Wishes

if TYPE_CHECKING:
    from wmmadiag.compile.ask.asking import Answer
    from wmmadiag.compile.ask.questions import AskedSource, Question
    from wmmadiag.subject.open_subject import SubjectOptions


@dataclass(frozen=True)
class GivenSource:
    """A file, and what the user said of it."""

    path: Path
    options: SubjectOptions
    changed: str | None = None  # its text where that is not the file's

    @cached_property
    def text(self) -> str:
        """Its text."""
        from wmmadiag.compile.sources import read_text

        return read_text(self.path) if self.changed is None else self.changed

    @property
    def wishes(self) -> Wishes:
        """What the user says of a draft."""
        return Wishes(self.options.grid, self.options.block, self.options.shared, self.options.symbols)

    def compiled(self) -> AskedSource:
        """It, as the compiler is asked about it."""
        from wmmadiag.compile.ask.questions import AskedSource

        return AskedSource(self.text, self.path.as_posix(), self.options.compilation())

    def answers(self, questions: Sequence[Question]) -> Mapping[Question, Answer]:
        """What the compiler says; nothing where it does not take the source: the compilation itself will say why."""
        from wmmadiag.compile.ask.asking import ask

        try:
            return ask(self.compiled(), questions)
        except WmmadiagError:
            return {}

    def of(self, entry: str) -> GivenSource:
        """The same where one of its kernels, or host functions, is named."""
        return replace(self, options=replace(self.options, entry=entry), changed=self.text)
