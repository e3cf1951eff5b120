"""What this process knows of files that it has compiled before: whether their headers are slow, and where questions to
them begin.

One check compiles a source several times: to ask what it declares, for each instantiation, for other macros.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.precompiled import Folder
from wmmadiag.compile.sources import SourceTree

if TYPE_CHECKING:
    from wmmadiag.compile.build import Built

_SLOW = 1.5
"""Seconds of a compilation after which the next one precompiles the headers."""
_KEPT = 4


@dataclass
class Learned:
    """What is known of one source with its headers, compiled so.

    Attributes:
        asked: a compilation with questions behind the source, which others may begin with.
    """

    asked: Built | None = None
    _slow: set[bool] = field(default_factory=set)
    _folder: Folder = field(default_factory=Folder)

    def took(self, seconds: float, *, questions: bool) -> None:
        """A compilation took so long."""
        if seconds > _SLOW:
            self._slow.add(questions)

    def folder(self, *, questions: bool) -> Path | None:
        """Where the next compilation, with questions or without, keeps its headers; None where that is not worth it.

        Those that are read with questions serve no other: kernels are functions to them.
        """
        return self._folder.path if questions in self._slow else None


_LEARNED: OrderedDict[int, Learned] = OrderedDict()


def learned(tree: SourceTree, options: CompileOptions) -> Learned:
    """What is known of a source; empty at first."""
    files = tuple(sorted((one.key, hash(one.data)) for one in tree.every()))
    macros = tuple(sorted((name, value or "") for name, value in options.macros.items()))
    key = hash((tree.root.name, files, macros, options.std, options.arch, tuple(map(str, options.include_paths))))
    found = _LEARNED.pop(key, None) or Learned()
    _LEARNED[key] = found
    while len(_LEARNED) > _KEPT:
        _LEARNED.popitem(last=False)
    return found
