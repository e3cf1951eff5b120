"""A card from whatever the user named: a card's file, or a CUDA source or PTX with options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.card import Card, LaunchShape
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.drafts.accumulators import with_accumulators
from wmmadiag.subject.drafts.carriers import adds_to, carried
from wmmadiag.subject.drafts.composite import numbers, taken_apart
from wmmadiag.subject.drafts.dispatch import dispatched
from wmmadiag.subject.drafts.from_source import card_from_options, draft_card
from wmmadiag.subject.drafts.guess import Parameter
from wmmadiag.subject.drafts.host_scope import Ask, Launched, replaced
from wmmadiag.subject.drafts.index_arithmetic import derived_launch
from wmmadiag.subject.drafts.recognise import Recognised, recognised
from wmmadiag.subject.drafts.source_facts import template_values
from wmmadiag.subject.drafts.which_kernel import chosen_kernel, chosen_remark
from wmmadiag.subject.operations import OPERATIONS

if TYPE_CHECKING:
    from wmmadiag.compile import Compilation, Entry, HostLaunch, KernelSignature

_PTX_TYPES = {"u8": "u8", "u16": "u16", "u32": "s32", "u64": "u64", "s32": "s32", "s64": "s64",
              "f16": "f16", "f32": "f32", "f64": "f64"}  # fmt: skip


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
    card = with_accumulators(card, facts.text) if path.suffix != ".ptx" else card
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


def _asking(path: Path, options: SubjectOptions) -> Ask | None:
    """Asks the compiler for constants of a source."""
    if path.suffix == ".ptx":
        return None

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


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What a source says about one kernel: its name, parameters, and launches in host code, best first.

    `text` is the source with the user's own headers, which hold constants and templates too. `remarks`: what was
    chosen where the source has several, each one clause. `bounds`: arguments of its `__launch_bounds__`.
    """

    entry: str
    parameters: tuple[Parameter, ...]
    launches: tuple[Launched, ...]
    text: str = ""
    remarks: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()


def source_facts(path: Path, options: SubjectOptions) -> SourceFacts:
    """Read a kernel's signature and launches.

    Raises:
        ConfigurationError: there is no kernel, no such kernel, or several and none is named.
    """
    from wmmadiag.compile.sources import read_text

    text = read_text(path)
    if not text.strip():
        raise ConfigurationError(f"{path}: the file is empty", hint="give CUDA source with a __global__ function")
    return _ptx_facts(path, text, options) if path.suffix == ".ptx" else _cuda_facts(path, text, options)


def _cuda_facts(path: Path, text: str, options: SubjectOptions) -> SourceFacts:
    from wmmadiag.compile import CompileOptions, compile_text, find_launches, kernel_signatures, signature
    from wmmadiag.compile.kernel_code import kernel_code, multiplies
    from wmmadiag.compile.signatures import type_aliases
    from wmmadiag.compile.sources import read_tree

    file = path.as_posix()
    tree = read_tree(text, file, options.include_paths, lambda _: False)
    launches = [launch for one in tree.files() for launch in find_launches(one.text, one.name)]
    names = list(dict.fromkeys(one.name for one in kernel_signatures(text, file)))
    whole = "\n".join(one.text for one in tree.files())
    entry, remarks = options.entry, tuple[str, ...]()
    if not entry:
        launched = [name for name in names if any(_base(one.kernel) == _base(name) for one in launches)]
        multiplying = [name for name in names if len(names) > 1 and multiplies(kernel_code(whole, name))]
        entry = chosen_kernel(path, names, launched, multiplying)
        remarks = tuple(filter(None, [chosen_remark(entry, names, multiplying)]))
    own = [one for one in launches if _base(one.kernel) == _base(entry)]
    if not own:  # `launch(kernel)`, where a function or lambda launches what it is given
        own = [one for one in launches if _base(one.kernel) not in map(_base, names)]
    own.sort(key=lambda one: (one.grid is None or one.block is None, not one.arguments))
    own = [_dispatched(one, whole) for one in own]
    wanted = entry
    if "<" not in entry and own and own[0].template_arguments:
        wanted = f"{entry}<{', '.join(one.text for one in own[0].template_arguments)}>"
    try:
        found = signature(text, wanted, file=file)
    except ConfigurationError:
        # It may stand in a header that only the include paths lead to: the compiler knows.
        compiled = compile_text(
            text,
            file,
            CompileOptions(
                macros={name: value or None for name, value in options.macros.items()},
                include_paths=options.include_paths,
                std=options.std or "c++17",
                name_expressions=(entry,) if "<" in entry else (),
            ),
        )
        kernel = compiled.entry(entry or None)
        found, entry = signature_of(compiled, kernel), entry or kernel.demangled
    parameters = tuple(
        Parameter(
            one.name or f"arg{index}",
            _plain_type(one.type),
            one.pointer,
            one.const,
            _card_type(one.dtype),
        )
        for index, one in enumerate(found.parameters)
    )
    values, aliases, code = template_values(whole, wanted), type_aliases(tree), kernel_code(whole, found.name)
    passed = [one.text for one in own[0].arguments] if own else []
    passed += [""] * (len(parameters) - len(passed))
    lanes = [one.lanes for one in found.parameters]
    parameters = tuple(
        replace(one, c_type=replaced(one.c_type, values), unread=_is_unread(one, code))
        if not one.pointer
        else carried(one, code, text, whole, aliases)
        if count > 1 and one.dtype not in ("f16", "bf16")
        else one
        for one, text, count in zip(parameters, passed, lanes, strict=False)
    )
    parameters, taken = taken_apart(parameters, own, whole, aliases, _element)
    parameters = tuple(
        replace(one, added=adds_to(code, one.label.rpartition(".")[2] or one.name))
        if one.pointer and not one.const and one.label != "data"
        else one
        for one in parameters
    )
    return SourceFacts(entry or found.name, parameters, taken, whole, remarks, found.launch_bounds)


def _is_unread(parameter: Parameter, code: str) -> bool:
    """Whether a kernel's code is known and does not mention a number."""
    return bool(code) and parameter.dtype is not None and not re.search(rf"\b{re.escape(parameter.name)}\b", code)


def _dispatched(launch: HostLaunch, text: str) -> HostLaunch:
    """A launch with the types that a dispatch macro would choose in the place of their names."""
    words = [one.text for one in launch.template_arguments if re.fullmatch(r"[A-Za-z_]\w*", one.text)]
    own = [name for name, _ in launch.aliases]
    types = dispatched(text, [word for word in words if own.count(word) != 1])
    if not types:
        return launch
    filled = tuple(replace(one, text=types.get(one.text, one.text)) for one in launch.template_arguments)
    return replace(launch, template_arguments=filled)


def _element(type_: str) -> tuple[str, str | None]:
    """A C type without qualifiers, and its name in cards."""
    from wmmadiag.compile.lexer import tokenize
    from wmmadiag.compile.signatures import parameter_of

    return _plain_type(type_), _card_type(parameter_of(tokenize(f"{type_} x"), {}).dtype)


def signature_of(compilation: Compilation, entry: Entry) -> KernelSignature:
    """The signature of a compiled kernel, also of one in a header that only an include path leads to.

    Raises:
        ConfigurationError: its declaration is nowhere to be read (a macro made it).
    """
    from wmmadiag.compile import signature
    from wmmadiag.compile.sources import read_text

    try:
        return signature(compilation, entry)
    except ConfigurationError:
        if entry.place is None or entry.place.file == compilation.source:
            raise
        return signature(read_text(Path(entry.place.file)), entry, file=entry.place.file)


def _ptx_facts(path: Path, text: str, options: SubjectOptions) -> SourceFacts:
    """PTX keeps no names; of a C++ kernel the mangled name keeps the types."""
    from wmmadiag.compile.driver import compile_text
    from wmmadiag.ptx import parse
    from wmmadiag.ptx.ir import Parameter as PtxParameter

    entry = compile_text(text, path.as_posix()).entry(options.entry or None)
    function = parse(text, name=str(path)).functions[entry.name]
    types = mangled_types(entry.name)
    parameters = []
    for index, one in enumerate(function.parameters):
        known = types[index] if len(types) == len(function.parameters) else ""
        if known:
            pointer = known.endswith("*")
            c_type = known.rstrip("* ").replace("const", " ").strip()
            parameters.append(Parameter(f"arg{index}", c_type, pointer, "const" in known, c_type))
            continue
        plain = _PTX_TYPES.get(one.type) if isinstance(one, PtxParameter) else None
        pointer = isinstance(one, PtxParameter) and one.type in ("u64", "b64", "s64")
        dtype = None if pointer else plain
        parameters.append(Parameter(f"arg{index}", f".{one.type}", pointer, False, dtype))
    return SourceFacts(entry.name, tuple(parameters), ())


def mangled_types(name: str) -> list[str]:
    """Parameter types in a mangled name: `_Z1kPKfi` → ["float const*", "int"]; empty when it has none."""
    from wmmadiag.ptx import demangle
    from wmmadiag.subject.drafts.c_expressions import split_arguments

    match = re.search(r"\(([^()]*)\)\Z", demangle(name))
    return [] if match is None else [part.strip() for part in split_arguments(match[1])]


def _base(name: str) -> str:
    return name.split("<")[0].split("::")[-1].strip()


def _card_type(dtype: str | None) -> str | None:
    """A card's name for a signature's element type (cards write s32 where signatures say i32)."""
    return None if dtype is None else re.sub(r"\Ai(\d+)\Z", r"s\1", dtype)


def _plain_type(text: str) -> str:
    words = re.sub(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b|\*", " ", text).split()
    return " ".join(words)


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
