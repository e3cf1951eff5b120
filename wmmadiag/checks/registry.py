"""The checks that there are, found by walking this package; and from what the engine saw to findings.

To add a check, write one module here that defines `CHECK = Check(…)`, and, where it watches the run, one file
`emulator/native/checks/NAME.cpp`. The module's docstring says what the check is for, in a few sentences, then holds a
section "Bad:" and a section "Good:" with an indented example each; `docs/checks.md` is made of them by
`python scripts/pages`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from wmmadiag.compile.model import Resources
    from wmmadiag.emulator import EmulatedKernel
    from wmmadiag.emulator.extents import NamedExtents
    from wmmadiag.emulator.lower import LoweredKernel
    from wmmadiag.emulator.output_words import Words
    from wmmadiag.launch import Launch

Raw: TypeAlias = Mapping[str, Any]
"""One `RawFinding` of emulator/native/check.hpp: its fields by name."""


@dataclass(frozen=True, slots=True)
class Context:
    """The run that findings are about."""

    kernel: LoweredKernel  # what ran; `kernel.nodes[pc]` has place and text of an instruction
    launch: Launch  # grid, block, arguments (arrays hold what the run left in them), names
    extents: NamedExtents  # named memory: arguments, global and shared variables, local memory
    # who wrote each element of the arguments that may be written, by index; see `checks.views`
    written: Mapping[int, Words] = field(default_factory=dict)
    finished: bool = True  # whether the run came to its end
    resources: Resources | None = None  # what ptxas said of the kernel, if it was asked


def _nothing(context: Context) -> Sequence[Finding]:
    del context
    return ()


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    name: str  # as users write it, "bank-conflicts"; the module has underscores for the hyphens
    summary: str  # one line
    levels: Mapping[Level, str]  # what its findings can be, with the evidence that each level takes, one clause
    # "free" (looks at the program or the launch only), "low" or "high" (slows the run noticeably)
    cost: Literal["free", "low", "high"]
    default: bool  # part of `--checks default`
    native: tuple[str, ...] = ()  # names of the engine's checks that must watch the run
    # a raw finding of one of these → a finding, or None when it is none after all. Findings that differ in detail and
    # count alone become one.
    describe: Callable[[Raw, Context], Finding | None] | None = None
    # findings from the program and the launch, after the run
    inspect: Callable[[Context], Iterable[Finding]] = _nothing

    @property
    def raw(self) -> bool:
        """Whether all that it says is of what the engine found: nothing of the program or the launch."""
        return self.describe is not None and self.inspect is _nothing


@cache
def all_checks() -> Mapping[str, Check]:
    """Every check by name, in the order of their names."""
    package = importlib.import_module("wmmadiag.checks")
    found = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        check = getattr(importlib.import_module(f"wmmadiag.checks.{module}"), "CHECK", None)
        if isinstance(check, Check):
            found[check.name] = check
    return dict(sorted(found.items()))


def select(words: str | Iterable[str]) -> tuple[Check, ...]:
    """The checks that "all", "default", "none", or names (in one string with commas, or several) stand for.

    Raises:
        ConfigurationError: there is no check of some name.
    """
    names = words.split(",") if isinstance(words, str) else list(words)
    known = all_checks()
    chosen: set[str] = set()
    for name in (name.strip() for name in names):
        if name in ("", "none"):
            continue
        if name == "all":
            chosen |= set(known)
        elif name == "default":
            chosen |= {check.name for check in known.values() if check.default}
        elif name in known:
            chosen.add(name)
        else:
            words = ["all", "default", "none", *known]
            raise ConfigurationError(f"unknown check '{name}'", hint=did_you_mean(name, words))
    return tuple(check for name, check in known.items() if name in chosen)


def native_names(checks: Iterable[Check]) -> tuple[str, ...]:
    """What `EmulatorOptions.checks` must hold for these."""
    return tuple(dict.fromkeys(name for check in checks for name in check.native))


def findings(kernel: EmulatedKernel, launch: Launch, checks: Iterable[Check]) -> tuple[Finding, ...]:
    """What the checks found in the last launch of a kernel, also in one that ended with a fault.

    The gravest first, then by place.
    """
    names = kernel.named_memory(launch)
    words, finished = kernel.output_words, kernel.finished
    context = Context(kernel.kernel, launch, names, words, finished, kernel.names.resources())
    return merged(one for one, _ in each_finding(kernel, context, checks))


def each_finding(
    kernel: EmulatedKernel, context: Context, checks: Iterable[Check]
) -> Iterator[tuple[Finding, Raw | None]]:
    """What the checks say of the last launch of a kernel, with what the engine saw; None for what it did not."""
    for check in checks:
        yield from ((one, None) for one in check.inspect(context))
        describe = check.describe
        if describe is not None:
            described = ((describe(raw, context), raw) for raw in kernel.raw_findings if raw["check"] in check.native)
            yield from ((one, raw) for one, raw in described if one is not None)


_ORDER = {level: rank for rank, level in enumerate(Level)}


def merged(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings of one cause at one place as one, with the first one's detail and the sum of the counts; sorted."""
    groups: dict[tuple[Any, ...], Finding] = {}
    for one in found:
        key = (one.check, one.kind, one.level, one.message, one.place, one.other)
        seen = groups.get(key)
        if seen is None:
            groups[key] = one
        else:
            pairs = tuple(dict.fromkeys((*seen.pairs, *one.pairs)))
            groups[key] = replace(seen, count=seen.count + one.count, pairs=pairs)
    return tuple(
        sorted(
            groups.values(),
            key=lambda one: (_ORDER[one.level], one.place.file, one.place.line, one.place.column, one.check, one.kind),
        )
    )
