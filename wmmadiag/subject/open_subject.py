"""A card from whatever the user named: a card's file, or a CUDA source or PTX with options."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.compile.languages import is_ptx
from wmmadiag.errors import ConfigurationError
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.card import Card, LaunchShape
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.drafts.accumulators import with_accumulators
from wmmadiag.subject.drafts.composite import numbers
from wmmadiag.subject.drafts.from_source import card_from_options, draft_card
from wmmadiag.subject.drafts.host_scope import Ask
from wmmadiag.subject.drafts.index_arithmetic import derived_launch
from wmmadiag.subject.drafts.kernel_facts import SourceFacts, source_facts
from wmmadiag.subject.drafts.recognise import Recognised, recognised
from wmmadiag.subject.drafts.source_facts import template_values

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class SubjectOptions:
    """What is said besides the path. Empty values leave it to the card, or to the source.

    Attributes:
        entry: the kernel's name or name expression ("attn<64>").
        computes: operation, for a source; a card says its own.
        grid, block: expressions, one per dimension; shared: of dynamic shared memory, bytes.
        macros: name → text; they win over the card's and its variants'.
        symbols: name → expression; they win over the cases'.
        include_paths: searched after the card's.
        std: C++ standard.
    """

    entry: str = ""
    computes: str = ""
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str = ""
    macros: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    include_paths: tuple[Path, ...] = ()
    std: str = ""

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


def open_subject(path: Path, options: SubjectOptions | None = None) -> Card:
    """The card of a `.toml` file with the options laid over it, or one derived from a source.

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
    facts = source_facts(path, options)
    said, assumed = options, facts.remarks
    if not options.computes:
        found = _recognised(facts)
        if not found.sure or path.with_suffix(".toml").is_file():  # a card beside it says it
            raise _asked(path, found)
        options = replace(options, computes=found.operation)
        assumed += (f"taken as {found.operation}, because {found.because}; --computes says otherwise",)
    facts, remark = _launched(facts, options.computes)
    if remark and not (options.grid and options.block):
        assumed += (remark,)
    try:
        card = card_from_options(
            facts.entry,
            facts.parameters,
            facts.launches,
            path,
            text=facts.text,
            operation=options.computes,
            grid=options.grid,
            block=options.block,
            shared=options.shared,
            symbols=options.symbols,
            macros=options.macros,
            ask=_asking(path, options),
        )
    except ConfigurationError as error:
        detail = "\n".join([error.detail, *(f"  {one}" for one in assumed)])
        raise ConfigurationError(error.message, place=error.place, detail=detail, hint=error.hint) from None
    card = replace(card, include_paths=options.include_paths, std=options.std or card.std)
    card = with_accumulators(card, facts.text)
    return replace(
        card,
        command=shlex.join(["wmmadiag", "check", str(path), *replace(said, entry=facts.entry).words()]),
        assumed=(*assumed, *card.assumed),
    )


def _recognised(facts: SourceFacts) -> Recognised:
    from wmmadiag.compile.kernel_code import kernel_code, multiplies

    code = kernel_code(facts.text, facts.entry)
    return recognised(facts.entry, facts.parameters, code, multiplies(code))


def _launched(facts: SourceFacts, operation: str) -> tuple[SourceFacts, str]:
    """The facts with the launch that the kernel's own code asks for, where the source has none, and a remark on it."""
    from wmmadiag.compile.host_code import HostLaunch
    from wmmadiag.compile.kernel_code import kernel_code
    from wmmadiag.compile.struct_values import expression

    if facts.launches or operation == "python" or not facts.text:
        return facts, ""
    values = template_values(facts.text, facts.entry)
    code = kernel_code(facts.text, facts.entry)
    derived = derived_launch(code, facts.parameters, facts.bounds, operation, numbers(facts.text, values))
    if not derived.grid or not derived.block:
        return facts, ""
    names = tuple(expression(one.name) for one in facts.parameters)
    grid, block = expression(derived.grid), expression(derived.block)
    launch = HostLaunch(
        facts.entry, (), grid, block, None, None, names, grid.place, "", members=(), derived=True
    )  # fmt: skip
    remark = (
        f"launched with {derived.grid} blocks of {derived.block} threads, as the kernel's launch bounds and its use of "
        "blockIdx ask for, since the source has no launch; --grid and --block say otherwise"
    )
    return replace(facts, launches=(launch,)), remark


def _opinion(found: Recognised) -> str:
    """The beginning of a sentence that `because` ends."""
    if not found.likely:
        return "nothing speaks for an operation:"
    return f"{found.operation} is the likeliest, {'because' if found.sure else 'but'}"


def _asked(path: Path, found: Recognised) -> ConfigurationError:
    """Nobody said what the kernel computes, and the source does not tell."""
    known = ", ".join(name for name in OPERATIONS if name != "python")
    beside = path.with_suffix(".toml")
    hint = f"check its card: wmmadiag check {shlex.quote(str(beside))}; or add " if beside.is_file() else "add "
    return ConfigurationError(
        f"{path}: what should the kernel compute?",
        detail=f"{_opinion(found)} {found.because}",
        hint=f"{hint}--computes with one of {known}; `wmmadiag init --computes python` drafts a card for anything else",
    )


def drafted_card(path: Path, card_path: Path, options: SubjectOptions) -> str:
    """The text of a card for a source, to be completed by the user; see `from_source.draft_card`.

    Raises: as `open_subject`.
    """
    if is_ptx(path):
        from wmmadiag.subject.drafts.from_ptx import ptx_draft

        return ptx_draft(path, card_path, options)
    facts = source_facts(path, options)
    remarks = facts.remarks
    if not options.computes:
        found = _recognised(facts)
        taken = f"taken as {found.operation}, because" if found.sure else _opinion(found)
        remarks += (f"{taken} {found.because}; --computes says otherwise",)
    operation = options.computes or found.operation
    facts, remark = _launched(facts, operation)
    return draft_card(
        facts.entry,
        facts.parameters,
        facts.launches,
        path,
        text=facts.text,
        operation=operation,
        remarks=(*remarks, *filter(None, [remark])),
        card_path=card_path,
        ask=_asking(path, options),
    )


def _asking(path: Path, options: SubjectOptions) -> Ask:
    """Asks the compiler for constants of a source."""

    def ask(expression: str, before: str) -> int | None:
        from wmmadiag.compile import CompileOptions
        from wmmadiag.compile.constant import constant_value
        from wmmadiag.compile.sources import read_text

        compile_options = CompileOptions(
            macros={name: value or None for name, value in options.macros.items()},
            include_paths=options.include_paths,
            std=options.std or "c++17",
        )
        return constant_value(read_text(path), path.as_posix(), expression, compile_options, before=before)

    return ask


def overlaid(card: Card, options: SubjectOptions) -> Card:
    """The card with the options over it, its variants and its cases.

    Raises:
        ConfigurationError: `computes` contradicts the card.
    """
    if options.computes and options.computes != card.computes.operation:
        raise ConfigurationError(
            f"the card says that the kernel computes '{card.computes.operation}', the option '{options.computes}'",
            place=card.computes.place,
            hint="change the card, or leave --computes out",
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
        _check_symbols(options.symbols)
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


def _check_symbols(symbols: Mapping[str, str]) -> None:
    for name in symbols:
        if not name.isidentifier():
            raise ConfigurationError(f"'{name}' cannot be a symbol", hint="write --symbol S=256")
