"""A source of a program as the host's compiler is given it: its files, rewritten."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from wmmadiag.compile.own_files import OwnFiles
from wmmadiag.compile.sources import SourceFile, SourceTree, named_line
from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.csource.lexical import Macro
from wmmadiag.programs.host import MARKS, DeviceNames, device_names, host_edits
from wmmadiag.programs.macro_kernels import MARKER, kernel_heads
from wmmadiag.programs.shipped import NATIVE
from wmmadiag.programs.symbols import object_source

_COLLECTIVES = re.compile(r'[<"]cub/(?:block|warp|thread|grid|util|device|iterator|agent)[^>"]*[>"]')
"""Parts of CUB, which are one header for the host."""


@dataclass
class PreparedSource:
    """A source whose files are ready to be written."""

    name: str
    tree: SourceTree
    own: OwnFiles
    text: str | None = None  # in place of the file's for the device
    names: list[DeviceNames] = field(default_factory=list)
    words: set[str] = field(default_factory=set)  # of its files, where macros make kernels and once they were `written`

    def may_use_libraries(self) -> bool:
        """Whether it includes a header of `native/headers`: of those, many are of no library."""
        return any((NATIVE / "headers" / name).is_file() for name in self.tree.unresolved)

    @cached_property
    def _marks(self) -> re.Pattern[bytes]:
        """Words of libraries for kernels and for what the device alone runs."""
        macros = self.own.space_macros
        names = [name for name, one in macros.items() if not any("__host__" in body for body in one.bodies)]
        return re.compile(rb"\b(?:" + "|".join(map(re.escape, names)).encode() + rb")\b" if names else rb"(?!)")

    @cached_property
    def _heads(self) -> dict[str, Macro]:
        """Macros of any file that stand for kernels' heads."""
        return kernel_heads(file.data for file in self.tree.every())

    @cached_property
    def _begins(self) -> re.Pattern[bytes]:
        return re.compile(rb"\b(?:" + "|".join(self._heads).encode() + rb")\b" if self._heads else rb"(?!)")

    def written(self, folder: Path, unit: int, *, closures: bool) -> dict[Path, bytes]:
        """Write its files; their texts, that of the source itself, the program's `unit`-th, first.

        Args:
            closures: whether extended lambdas become objects of classes.
        """
        paths = {file.key: folder / f"{number}_{Path(file.key).name}" for number, file in enumerate(self.tree.every())}
        paths[next(iter(paths))] = folder / object_source(unit)
        self.names.clear()
        self.words.clear()
        made = {paths[file.key]: self._text(file, paths, closures) for file in self.tree.every()}
        if any(MARKER.encode() in text for text in made.values()):
            for file in self.tree.every():
                self.words.update(re.findall(r"[A-Za-z_]\w*", file.data.decode("utf-8", "replace")))
        folder.mkdir(exist_ok=True)
        for path, text in made.items():
            path.write_bytes(text)
        return made

    def _text(self, file: SourceFile, paths: Mapping[str, Path], closures: bool) -> bytes:
        edits = []
        for one in file.directives:
            target = self.tree.targets.get((file.key, one.start), "")
            included = f'"{paths[target]}"' if target in paths else ""
            if not included and one.name == "include" and _COLLECTIVES.match(one.argument):
                included = "<cub/cub.cuh>"
            if included:
                lines = "\n" * file.data.count(b"\n", one.start, one.end)
                edits.append(ByteEdit(one.start, one.end, f"#include {included}{lines}"))
        if MARKS.search(file.data) or self._marks.search(file.data) or self._begins.search(file.data):
            source = self.own.parsed(file)
            declared = self.own.declared.get(file.key) or declarations(source)
            edits += host_edits(source, declared, closures=closures, heads=self._heads)
            self.names.append(device_names(declared))
        text = applied(file.data, sorted(edits, key=lambda one: (one.start, one.end)))
        return named_line(file.name) + text
