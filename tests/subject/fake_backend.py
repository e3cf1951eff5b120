"""A compiler and a backend that run a Python function in a kernel's place."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from wmmadiag.launch import RunStats


@dataclass
class Fake:
    """`kernel(macros, launch)` runs; `compilations` collects what was compiled."""

    kernel: object
    compilations: list = field(default_factory=list)
    loads: list = field(default_factory=list)

    def compiler(self, path, options):
        self.compilations.append((path.name, options))
        note = SimpleNamespace(place=None, message="a note")
        ptx = repr(dict(options.macros))
        return SimpleNamespace(
            ptx=ptx,
            compiler="fake 1",
            notes=(note,),
            entry=lambda name: SimpleNamespace(name="_Z" + name, demangled=name),
        )

    def backend(self, ptx, entry, *, arch):
        self.loads.append((entry, arch))
        macros = eval(ptx)

        def launch(what):
            output = self.kernel(macros, what)
            return RunStats(1000, 0.5, output or "")

        return SimpleNamespace(launch=launch)
