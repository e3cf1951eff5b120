"""A bench whose changed texts are compiled ahead of their runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.diagnose.trials.ahead import Ahead
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject import bench
from wmmadiag.subject.bench import CaseRun

if TYPE_CHECKING:
    from wmmadiag.compile import Compilation, CompileOptions
    from wmmadiag.subject.card import Case
    from wmmadiag.subject.compiling import Texts

__all__ = ["CaseRun", "Workbench"]


@dataclass(slots=True)
class Workbench(bench.Workbench):
    """A bench that compiles changed texts, also before they are run."""

    ahead: Ahead = field(default_factory=Ahead)

    def begin(self, case: Case, texts: Texts) -> None:
        """Begin to compile a case's kernel with some text changed: it will be run soon."""
        try:
            options = self._session({})[0].compile_options(case, self.variant)
        except WmmadiagError:
            return  # the run itself says so
        self.ahead.begin(self.source, options, texts)

    def compiled(self, path: Path, options: CompileOptions, texts: Texts) -> Compilation:
        return self.ahead.take(path, options, texts)
