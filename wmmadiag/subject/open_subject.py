"""A card from whatever the user named: a card's file, or a CUDA source or PTX with options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path

from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import ConfigurationError, WmmadiagError, did_you_mean
from wmmadiag.ops.expressions import names_in
from wmmadiag.ops.registry import OPERATIONS
from wmmadiag.subject.binding import DISPLACED
from wmmadiag.subject.card import Card, LaunchShape
from wmmadiag.subject.card_files.read import load_card


@dataclass(frozen=True, slots=True)
class SubjectOptions:
    """What is said besides the path. Empty values leave it to the card, or to the source."""

    entry: str = ""  # the kernel's name or name expression ("attn<64>")
    computes: str = ""  # operation or formulas, for a source; a card says its own
    # grid, block: expressions, one per dimension; shared: of dynamic shared memory, bytes
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str = ""
    macros: Mapping[str, str] = field(default_factory=dict)  # name → text; they win over the card's and its variants'
    symbols: Mapping[str, str] = field(default_factory=dict)  # name → expression; they win over the cases'
    include_paths: tuple[Path, ...] = ()  # searched after the card's
    std: str = ""  # C++ standard

    @property
    def formulas(self) -> tuple[str, ...]:
        """What is computed as formulas, and shapes beside them; none where it is an operation's name."""
        return tuple(filter(str.strip, self.computes.split(";"))) if "=" in self.computes else ()

    @property
    def defines(self) -> dict[str, str | None]:
        """The macros as a compiler takes them: without a text the bare name is defined."""
        return {name: value or None for name, value in self.macros.items()}

    def compilation(self) -> CompileOptions:
        """How a source is compiled with them."""
        return CompileOptions(macros=self.defines, include_paths=self.include_paths, std=self.std or "c++17")

    def words(self) -> list[str]:
        """The options as the command line takes them."""
        words = ["--entry", self.entry] if self.entry else []
        words += ["--computes", self.computes] if self.computes else []
        for option, values in (("--grid", self.grid), ("--block", self.block)):
            words += [option, ",".join(values)] if values else []
        words += ["--shared", self.shared] if self.shared else []
        for name, value in self.macros.items():
            words += ["--define", f"{name}={value}" if value else name]
        for name, value in self.symbols.items():
            words += ["--symbol", f"{name}={value}"]
        for path in self.include_paths:
            words += ["--include", str(path)]
        return words + (["--std", self.std] if self.std else [])


def open_subject(path: Path, options: SubjectOptions | None = None, *, together: bool = False) -> Card:
    """The card of a `.toml` file with the options laid over it, or one derived from a source.

    Args:
        path, options: what the user named, and said of it.
        together: whether it may be of several kernels that a host function launches one after the other.

    Raises:
        ConfigurationError: the file cannot be read, is no card, or does not say enough.
        PtxSyntaxError: a PTX file is malformed.
    """
    options = options or SubjectOptions()
    if path.suffix == ".toml":
        return overlaid(load_card(path), options)
    if is_ptx(path):
        from wmmadiag.subject.drafts.from_ptx import ptx_card

        return ptx_card(path, options)
    card = derived(path, options, together=together)
    _check_derived_symbols(options.symbols, card)
    return card


_derivations: ContextVar[dict[object, Card | WmmadiagError] | None] = ContextVar("derivations", default=None)


@contextmanager
def derived_once() -> Iterator[None]:
    """Within it no source is derived from twice in the same way: a command that asks again reads and tries nothing.

    Its files are taken as they were when they were first read.
    """
    if _derivations.get() is not None:
        yield
        return
    token = _derivations.set({})
    try:
        yield
    finally:
        _derivations.reset(token)


def derived(path: Path, options: SubjectOptions, *, together: bool = False) -> Card:
    """`derived_card`, or what it has come to before: see `derived_once`."""
    from wmmadiag.subject.drafts.derive import derived_card

    known = _derivations.get()
    if known is None:
        return derived_card(path, options, together=together)
    key = (path, Path.cwd(), repr(options), together)
    if key not in known:
        try:
            known[key] = derived_card(path, options, together=together)
        except WmmadiagError as error:
            known[key] = error
    found = known[key]
    if isinstance(found, WmmadiagError):
        raise found.with_traceback(None)
    return found


def overlaid(card: Card, options: SubjectOptions) -> Card:
    """The card with the options over it, its variants and its cases.

    Raises:
        ConfigurationError: `computes` contradicts the card.
    """
    if options.computes and options.computes != card.computes.operation:
        raise card.computes.error(
            f"the card says that the kernel computes '{card.computes.operation}', the option '{options.computes}'",
            "change the card, or leave --computes out",
        )
    if options.entry:
        card = replace(card, entry=options.entry, variants=tuple(replace(one, entry=None) for one in card.variants))
    if options.macros:
        card = card.with_macros(options.macros)
        given = options.macros
        variants = (
            replace(one, macros={k: v for k, v in one.macros.items() if k not in given}) for one in card.variants
        )
        card = replace(card, variants=tuple(variants))
    if options.grid or options.block or options.shared:
        card = replace(
            card,
            launch=_launch(card.launch, options),
            variants=tuple(
                replace(one, launch=_launch(one.launch, options)) if one.launch else one for one in card.variants
            ),
        )
    if options.symbols:
        _check_symbols(options.symbols, card)
        card = replace(
            card, cases=tuple(replace(one, symbols={**one.symbols, **options.symbols}) for one in card.cases)
        )
    if options.include_paths:
        card = replace(card, include_paths=(*card.include_paths, *options.include_paths))
    if options.std:
        card = replace(card, std=options.std)
    words = replace(options, computes="").words()
    return replace(card, command=shlex.join(["wmmadiag", "check", str(card.path), *words])) if words else card


def _launch(shape: LaunchShape, options: SubjectOptions) -> LaunchShape:
    return LaunchShape(
        options.grid or shape.grid, options.block or shape.block, options.shared or shape.shared, shape.place
    )


def _check_symbols(symbols: Mapping[str, str], card: Card) -> None:
    known = {name for case in card.cases for name in case.symbols} | {*OPERATIONS[card.computes.operation].symbols}
    for name, value in symbols.items():
        if not name.isidentifier():
            raise ConfigurationError(f"'{name}' cannot be a symbol", hint="write --symbol S=256")
        used = known | set(_names(replace(card, cases=()))) | {DISPLACED}
        others = (names_in(text) for other, text in symbols.items() if other != name)
        if name not in used and not any(name in names for names in others):
            raise ConfigurationError(
                f"nothing in the card uses the symbol '{name}' (of --symbol {name}={value})",
                place=card.cases[0].place if card.cases else card.computes.place,
                hint=did_you_mean(name, sorted(known)),
            )


def _check_derived_symbols(symbols: Mapping[str, str], card: Card) -> None:
    """Refuse a symbol that nothing derived from a source uses: a typo would run the sizes that were guessed."""
    if not symbols:
        return
    own = card.derived
    names = {name for case in card.cases for name in case.symbols} - set(symbols)
    operation = OPERATIONS[card.computes.operation]
    names |= {*operation.symbols, *operation.parameters, DISPLACED}
    names |= {name for role in operation.roles.values() for text in role.shape for name in names_in(text)}
    names |= set(_names(replace(card, cases=()))) | set(_names(card.cases)) & set(symbols)
    machine = own.kernel.machine if own is not None else None
    names |= set(machine.names) if machine is not None else set()
    for name, value in symbols.items():
        if name not in names:
            raise ConfigurationError(
                f"{card.path}: nothing that is derived from the source uses the symbol '{name}' (of --symbol "
                f"{name}={value})",
                hint=did_you_mean(name, sorted({one for case in card.cases for one in case.symbols} - {name})),
            )


def _names(value: object) -> Iterator[str]:
    """The names in all expressions of a card or a part of it."""
    if isinstance(value, str):
        yield from names_in(value)
    elif is_dataclass(value):
        for one in fields(value):
            yield from _names(getattr(value, one.name))
    elif isinstance(value, Mapping):
        yield from _names(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _names(part)
