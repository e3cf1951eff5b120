"""What is debugged: one case of one variant of a card, compiled and ready to be run any number of times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.model import Compilation
from wmmadiag.compile.origin import origin_of, ptx_name
from wmmadiag.emulator import EmulatedKernel, EmulatorOptions, lower
from wmmadiag.errors import ConfigurationError
from wmmadiag.ptx import parse
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card, Case, Variant
from wmmadiag.subject.card_session import CardSession, PlainRuns
from wmmadiag.subject.compiling import SubjectCompiler

if TYPE_CHECKING:
    from wmmadiag.debugger.kept import KeepingCompiler


@dataclass(frozen=True, slots=True)
class Target:
    """One kernel with its inputs."""

    # card, case, variant, arch: which
    card: Card
    case: Case
    variant: Variant
    arch: str
    kernel: EmulatedKernel  # every virtual register has storage of its own, so that each can be looked at
    compilation: Compilation  # where it comes from
    # seed, inputs: in place of the card's; None and "" for those
    seed: int | None = None
    inputs: str = ""
    # how it was compiled
    use_cache: bool = True
    # whose variables are kept (kept.py): file and offset of a declarator → what its markers' registers are called
    kept: Mapping[tuple[str, int], str] = field(default_factory=dict)

    @property
    def cases(self) -> tuple[str, ...]:
        """The names of the card's cases."""
        return tuple(one.name for one in self.card.cases)

    def other(self, *, card: Card | None = None, case: str = "", arch: str = "") -> Target:
        """The same with another case, or another card's first variant; other options stay.

        Raises: as `open_target`.
        """
        return open_target(
            card or self.card,
            case=case,
            variant="" if card is not None else self.variant.name,
            arch=arch or self.arch,
            seed=self.seed,
            inputs=self.inputs,
            use_cache=self.use_cache,
        )

    @property
    def source(self) -> str:
        """The file that it was compiled from; of PTX from elsewhere the one that its line table names."""
        place = self.kernel.kernel.entry.place
        made_from = place.file if is_ptx(self.compilation.source) and place is not None else ""
        return made_from or self.compilation.source

    @property
    def title(self) -> str:
        """Card, case and variant in one line."""
        variant = f", variant {self.variant.name}" if len(self.card.variants) > 1 else ""
        return f"{self.card.name}, case {self.case.name}{variant}, {self.arch}"

    def keeping(self, compiler: KeepingCompiler) -> Target:
        """The same, compiled by a compiler that keeps its variables.

        Raises: as `open_target`.
        """
        session = CardSession(self.card, self.arch, _load, compiler, PlainRuns())
        loaded = session.kernel(self.case, self.variant)
        assert isinstance(loaded.kernel, EmulatedKernel)
        return replace(self, kernel=loaded.kernel, compilation=loaded.compilation, kept=compiler.kept)

    def bind(self) -> BoundCase:
        """The case with fresh arrays."""
        return bind(self.card, self.case, self.variant, seed=self.seed, inputs=self.inputs)

    def compact(self) -> EmulatedKernel:
        """The same kernel with registers that share storage, for runs that copy the register file."""
        entry = self.kernel.kernel.entry.name
        kernel = lower(parse(self.compilation.ptx, entry=entry), entry, self.arch)
        return EmulatedKernel(kernel, self.kernel.options, self.kernel.origin)


def open_target(
    card: Card,
    *,
    case: str = "",
    variant: str = "",
    arch: str,
    seed: int | None = None,
    inputs: str = "",
    use_cache: bool = True,
) -> Target:
    """Compile one case of a card.

    Args:
        case, variant: names; "" for the first.

    Raises:
        ConfigurationError: there is no such case or variant, or the card is wrong.
        CompileError, UnsupportedError: it cannot be compiled, or run on the emulator.
    """
    if not card.cases:
        raise ConfigurationError(f"{card.path}: the card has no cases", hint="add [[cases]] with the sizes to run")
    chosen_case = card.case(case) if case else card.cases[0]
    chosen_variant = card.variant(variant) if variant else card.variants[0]
    session = CardSession(card, arch, _load, SubjectCompiler(use_cache=use_cache), PlainRuns())
    loaded = session.kernel(chosen_case, chosen_variant)
    assert isinstance(loaded.kernel, EmulatedKernel)
    return Target(card, chosen_case, chosen_variant, arch, loaded.kernel, loaded.compilation, seed, inputs, use_cache)


def _load(ptx: str, entry: str, *, arch: str) -> EmulatedKernel:
    module = parse(ptx, name=ptx_name(ptx), entry=entry)
    kernel = lower(module, entry, arch, share_registers=False)
    return EmulatedKernel(kernel, EmulatorOptions(threads=1), origin_of(ptx))
