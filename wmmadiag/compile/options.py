"""What is compiled and how: the options of one compilation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from wmmadiag.errors import ConfigurationError

# CUDA C++ Programming Guide, "Compute Capability" and "Feature Set Compiler Targets": `a` and `f` are the
# architecture- and family-specific targets.
_ARCH = re.compile(r"(?:sm_|compute_)?(\d{2,3})([af]?)$")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*$")
_STANDARDS = ("c++11", "c++14", "c++17", "c++20", "c++23")


@dataclass(frozen=True)
class CompileOptions:
    """Options of one compilation; the defaults are those of a plain kernel.

    Attributes:
        arch: target, "sm_90" ("compute_90" and "90" are accepted and normalised).
        macros: name → text; None defines the bare name, as `-DNAME` does.
        include_paths: searched for `#include`, in order.
        std: C++ standard, "c++17".
        name_expressions: kernels to instantiate, e.g. "attn<64,64>" or "ns::attn<float>".
        debug: compile with `-G` (no optimisation).
        extra: raw compiler options, appended last.
        own: headers, by absolute path, that are the user's although only an include path leads to them.
        precompiled: a folder in which NVRTC may keep precompiled headers for the next compilation in this process;
            the PTX is the same either way.

    Raises:
        ConfigurationError: an option that no compiler would take.
    """

    arch: str = "sm_90"
    macros: Mapping[str, str | None] = field(default_factory=dict)
    include_paths: tuple[Path, ...] = ()
    std: str = "c++17"
    name_expressions: tuple[str, ...] = ()
    debug: bool = False
    extra: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    precompiled: Path | None = None

    def __post_init__(self) -> None:
        match = _ARCH.match(str(self.arch).strip())
        if match is None:
            raise ConfigurationError(
                f"unknown architecture {self.arch!r}", hint="give a target such as sm_80 or sm_90a"
            )
        object.__setattr__(self, "arch", f"sm_{match[1]}{match[2]}")
        # A notebook's user writes {"BM": 64, "CAUSAL": True}.
        texts = {
            name: None if text is None else str(int(text)) if isinstance(text, bool) else str(text)
            for name, text in self.macros.items()
        }
        object.__setattr__(self, "macros", texts)
        for name in self.macros:
            if not _IDENTIFIER.match(name):
                raise ConfigurationError(
                    f"macro name {name!r} is not an identifier", hint="name macros as in C: letters, digits and _"
                )
        for what in ("include_paths", "name_expressions", "extra"):
            if isinstance(getattr(self, what), (str, bytes)):
                raise ConfigurationError(f"compile option `{what}` is a list, not one string", hint='write ["…"]')
        object.__setattr__(self, "include_paths", tuple(Path(path) for path in self.include_paths))
        object.__setattr__(self, "name_expressions", tuple(self.name_expressions))
        object.__setattr__(self, "extra", tuple(self.extra))
        if self.std not in _STANDARDS:
            raise ConfigurationError(f"unknown C++ standard {self.std!r}", hint=f"one of {', '.join(_STANDARDS)}")

    @property
    def virtual_arch(self) -> str:
        """The PTX target, e.g. "compute_90" for "sm_90"."""
        return "compute_" + self.arch.removeprefix("sm_")

    def of_a_program(self) -> CompileOptions:
        """For both halves of a program: NVIDIA's headers are C++17, and a program of an older one is that, too.

        What it may write besides is `register`, which means nothing.
        """
        return self if int(self.std[3:]) >= 17 else replace(self, std="c++17", macros={**self.macros, "register": ""})

    def macro_flags(self) -> list[str]:
        """`-DNAME` and `-DNAME=text`, in the order given."""
        return [f"-D{name}" if text is None else f"-D{name}={text}" for name, text in self.macros.items()]

    def fingerprint(self) -> tuple[str, ...]:
        """All that changes the compiled code, as strings; part of the cache key (include paths apart)."""
        return (
            self.arch,
            self.std,
            f"debug={self.debug}",
            *self.macro_flags(),
            "names",
            *self.name_expressions,
            "extra",
            *self.extra,
            "own",
            *self.own,
        )
