"""Cards from PTX alone: Triton, CuTe DSL, Warp, Numba and clang write it, and no host code comes with it.

What cannot run is refused first, by its instruction. The block is what `.reqntid` says, or `.maxntid` at most; what is
a pointer, and to what, is known from what the code does with the parameters. What then remains open is asked for at
once: the operation, the grid, dynamic shared memory, values of numbers.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wmmadiag.compile.model import Compilation, Entry
from wmmadiag.compile.names import full_name
from wmmadiag.compile.ptx_scan import bodies, emulated_target
from wmmadiag.errors import ConfigurationError, UnsupportedError
from wmmadiag.ops import OPERATIONS
from wmmadiag.ptx import parse
from wmmadiag.ptx.ir import Instruction, Module, PtxFunction
from wmmadiag.ptx.parameter_uses import ParameterUse, parameter_uses
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.drafts.asking import check_operation
from wmmadiag.subject.drafts.draft import draft
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import TODO, CardDraft, Open, Wishes
from wmmadiag.subject.drafts.plain_card import plain_card
from wmmadiag.subject.drafts.ptx_parameters import parameters_of, python_parameters
from wmmadiag.subject.drafts.recognise import Recognised, recognised
from wmmadiag.subject.drafts.sizes import cases
from wmmadiag.subject.drafts.text import draft_text
from wmmadiag.subject.drafts.which_kernel import chosen_kernel, chosen_remark
from wmmadiag.subject.open_subject import SubjectOptions

_MULTIPLIES = ("mma", "wmma.mma")
_NO_LAUNCH = "PTX holds no launch"


@dataclass(frozen=True, slots=True)
class PtxFacts:
    """What a PTX file says of one of its kernels."""

    entry: str  # its name as in the PTX; `name`: the same for people, without parameters and template arguments
    name: str
    parameters: tuple[DraftParameter, ...]  # in order, structs taken apart
    block: tuple[str, ...]  # as `.reqntid` or `.maxntid` say, one expression per dimension; empty if neither does
    dynamic: tuple[str, ...]  # the names of the dynamic shared memory that it uses
    opcodes: tuple[str, ...]  # its instructions and those of what it calls, each form once
    multiplications: int  # how many of its instructions multiply on tensor cores
    accumulators: frozenset[str]  # types in which these sum; `inputs`: of their operands
    inputs: frozenset[str]
    remarks: tuple[str, ...]  # what was assumed, each one clause; `notes`: what is known besides
    notes: tuple[str, ...]


def ptx_card(path: Path, options: SubjectOptions) -> Card:
    """A card derived from a PTX file and command-line options.

    Raises:
        ConfigurationError: the file, or something that only the user can say; the message asks for all of it.
        PtxSyntaxError: the PTX is malformed.
        UnsupportedError: the kernel holds what is not emulated.
    """
    if options.formulas:
        raise ConfigurationError(
            f"{path}: a formula on the command line is of a CUDA source",
            hint="write a card, `wmmadiag init KERNEL.ptx`, with `formula` in its [computes]",
        )
    facts = ptx_facts(path, options)
    found = _recognised(facts)
    drafted = _drafted(facts, options, options.computes or found.operation)
    questions = _questions(drafted, options, found)
    if questions:
        raise _asked(path, facts, options, questions)
    text = draft_text(drafted, path.name, path.stem, cases(drafted, options.symbols))
    card = parse_card(text, path, shown=f"card derived from {path}")
    words = replace(options, entry=facts.entry).words()
    return replace(
        card,
        assumed=(*facts.remarks, *drafted.remarks, *_order_of_pointers(drafted), *card.assumed),
        include_paths=options.include_paths,
        command=shlex.join(["wmmadiag", "check", str(path), *words]),
        open_conventions=True,
    )


def ptx_draft(path: Path, card_path: Path, options: SubjectOptions) -> str:
    """The text of a card for a kernel in a PTX file; what is open says TODO.

    Raises: as `ptx_card`, what is open apart.
    """
    facts = ptx_facts(path, options)
    found = _recognised(facts)
    operation = options.computes or (found.operation if found.likely else "python")
    relative = Path(os.path.relpath(path, card_path.parent)).as_posix()
    if OPERATIONS[operation].oracle is None:
        parameters = [
            one if one.pointer or one.value or not _is_unnamed(one) else replace(one, value=TODO)
            for one in facts.parameters
        ]
        wishes = Wishes(options.grid, options.block or facts.block, options.shared or TODO * bool(facts.dynamic))
        text = plain_card(_kernel(facts, parameters), relative, path.stem, wishes, operation)
        return _with_notes(text, [*(f"Assumed: {one}" for one in facts.remarks), *facts.notes])
    drafted = _drafted(facts, options, operation)
    if not options.computes:
        taken = f"{operation} is the likeliest operation, {_opinion(found)}; --computes says otherwise"
        drafted.remarks.insert(0, taken)
    drafted.remarks[:0] = facts.remarks
    drafted.remarks += _order_of_pointers(drafted)
    return _with_notes(draft_text(drafted, relative, path.stem, cases(drafted, {})), facts.notes)


def _with_notes(text: str, notes: Sequence[str]) -> str:
    """A card's text with comments at its head, and without those about macros, which PTX has none of."""
    text = re.sub(r"^# (?:\[variants\.\w+\]|macros = .*)\n", "", text, flags=re.MULTILINE)
    head = [f"# {note[:1].upper()}{note[1:]}." for note in notes]
    return "\n".join([*head, *([""] if head else []), text])


def ptx_facts(path: Path, options: SubjectOptions) -> PtxFacts:
    """Read a PTX file as far as one kernel needs it.

    Raises: as `ptx_card`, what is open apart.
    """
    from wmmadiag.compile.driver import compile_text
    from wmmadiag.compile.sources import read_text

    text = read_text(path)
    name = path.as_posix()
    compiled = compile_text(text, name)
    if not compiled.entries:
        parse(text, name=name)  # malformed PTX says so better
        raise ConfigurationError(f"{path}: the PTX holds no kernel", hint="a kernel is an `.entry`; a `.func` is none")
    entry, remarks = _chosen(path, compiled, text, options.entry)
    module = parse(text, name=name, entry=entry.name)
    function = module.functions[entry.name]
    code = [one for reached in _reached(module, function) for one in reached.instructions]
    dynamic = _emulated(module, entry.name, emulated_target(text) or module.target, code)
    block, assumed = _block(function)
    if not options.block:
        remarks += assumed
    uses = parameter_uses(module, entry.name)
    names, said = _names(function, entry, uses)
    parameters, about = parameters_of(entry.name, uses, names)
    mma = [one for one in code if one.op in _MULTIPLIES]
    return PtxFacts(
        entry.name,
        entry.base_name,
        tuple(parameters),
        block,
        dynamic,
        tuple(dict.fromkeys(one.text for one in code)),
        len(mma),
        frozenset(one.attributes.get("dtype", "") for one in mma),
        frozenset(one.attributes.get("atype", "") for one in mma),
        remarks,
        (*said, *about),
    )


def _chosen(path: Path, compiled: Compilation, text: str, wanted: str) -> tuple[Entry, tuple[str, ...]]:
    """The kernel that is meant, and why if there are several."""
    if wanted or len(compiled.entries) == 1:
        return compiled.entry(wanted or None), ()
    shown = {one.name: one.demangled for one in compiled.entries}
    if len(set(shown.values())) < len(shown):
        shown = {one.name: one.name for one in compiled.entries}
    multiplying = [
        shown[name] for name, body in bodies(text) if name in shown and re.search(r"\b(?:wmma\.)?mma\.sync\b", body)
    ]
    chosen = chosen_kernel(path, list(shown.values()), [], multiplying)
    entry = next(one for one in compiled.entries if shown[one.name] == chosen)
    remark = chosen_remark(chosen, list(shown.values()), multiplying)
    return entry, (remark,) if remark else ()


def _reached(module: Module, function: PtxFunction) -> Iterator[PtxFunction]:
    """The kernel, and the functions whose bodies were read with it."""
    yield function
    for one in module.functions.values():
        if not one.entry and not one.declared_only:
            yield one


def _emulated(module: Module, entry: str, arch: str, code: Sequence[Instruction]) -> tuple[str, ...]:
    """Refuse what is not emulated; the names of the dynamic shared memory that the kernel uses."""
    from wmmadiag.emulator.lower import refuse_unsupported

    try:
        layout = refuse_unsupported(module, entry, arch)
    except UnsupportedError as error:
        at = next((one.ptx_line for one in code if one.text == error.op and one.place == error.place), 0)
        if at and not error.detail:
            error.detail = f"line {at} of the PTX: {error.op}"
        error.hint = error.hint or (
            "nothing of this kernel can be checked here; compile it for sm_80 or sm_89, or without that feature"
        )
        raise
    return tuple(layout.dynamic)


def _block(function: PtxFunction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The block that a kernel asks for, and what is assumed with it."""
    required, most = function.limits.get("reqntid"), function.limits.get("maxntid")
    shape = required or most
    if not shape:
        return (), ()
    block = [str(extent) for extent in shape]
    while len(block) > 1 and block[-1] == "1":
        block.pop()
    if required:
        return tuple(block), ()
    remark = (
        f"launched with blocks of {', '.join(block)} threads, the most that .maxntid allows; --block says otherwise"
    )
    return tuple(block), (remark,)


def _names(function: PtxFunction, entry: Entry, uses: Sequence[ParameterUse]) -> tuple[list[str], tuple[str, ...]]:
    """Names of the parameters ("": unknown) in the Python function that the PTX was made from, and a remark on them.

    Triton leaves out arguments that are 1 or constants, and puts pointers of its own behind the last one: names are
    believed only where pointers fall on pointers.
    """
    names = list(python_parameters(function.place.file, entry.base_name)) if function.place is not None else []
    if not names or full_name(entry.name) != entry.name:
        return names, ()
    count = len(uses)
    while count and uses[count - 1].parameter.size == 8 and not uses[count - 1].members:
        count -= 1
    wide = [use.parameter.size == 8 for use in uses[:count]]
    pointers = [name for name in names if "ptr" in name.lower()]
    first = not pointers and wide == sorted(wide, reverse=True)  # pointers stand before numbers, and nothing behind
    if count == len(names) and (first or wide == [name in pointers for name in names]):
        return [*names, *[""] * (len(uses) - count)], ()
    listed = f"the Python function takes {', '.join(names)}, of which the PTX does not have all"
    if len(pointers) == sum(wide):
        left = iter(pointers)
        return [next(left) if use.parameter.size == 8 and index < count else "" for index, use in enumerate(uses)], (
            listed,
        )
    return [], (listed,)


def _recognised(facts: PtxFacts) -> Recognised:
    return recognised(facts.name, facts.parameters, "\n".join(facts.opcodes), facts.multiplications)


def _opinion(found: Recognised) -> str:
    return f"{'because' if found.sure else 'but'} {found.because}"


def _kernel(facts: PtxFacts, parameters: Sequence[DraftParameter]) -> SourceKernel:
    return SourceKernel(facts.entry, tuple(parameters), (None,) * len(parameters))


def _drafted(facts: PtxFacts, options: SubjectOptions, operation: str) -> CardDraft:
    """A card in the making, with what PTX tells besides parameters."""
    check_operation(operation)
    wishes = Wishes(options.grid, options.block or facts.block, options.shared)
    drafted = draft(_kernel(facts, facts.parameters), operation, wishes)
    drafted.open = [replace(one, why=_reason(one.what, one.why)) for one in drafted.open]
    for argument in drafted.arguments:
        if argument.parameter.value:
            argument.reason = "nothing reads it" if argument.parameter.unread else "as Numba passes it"
    if facts.dynamic and not options.shared:
        drafted.shared = TODO
        names = ", ".join(full_name(one.rpartition(":")[2]) for one in facts.dynamic)
        why = f"it uses dynamic shared memory ({names}), and PTX does not say how much"
        drafted.open.append(Open("shared", why, "launch", "--shared"))
    accumulates = "accumulate" in OPERATIONS[operation].parameters
    if accumulates and facts.accumulators == {"f16"}:
        drafted.computes["accumulate"] = "f16"
        drafted.remarks.append("sums are kept in f16, as the kernel's multiplications are")
    if facts.inputs == {"tf32"}:
        for argument in drafted.arguments:
            role = OPERATIONS[operation].roles.get(argument.role)
            if argument.dtype == "f32" and argument.parameter.pointer and role is not None and not role.output:
                argument.dtype = "tf32"
    return drafted


def _reason(what: str, why: str) -> str:
    """Why something is open: there is no host code that could tell."""
    if what in ("grid", "block"):
        return _NO_LAUNCH
    return "nothing in PTX says what it stands for" if what.startswith("the value of") and "C type" not in why else why


def _is_unnamed(parameter: DraftParameter) -> bool:
    """Whether a parameter has no name but its place."""
    return re.fullmatch(r"arg\d+|.*_at\d+", parameter.name) is not None


def _order_of_pointers(drafted: CardDraft) -> list[str]:
    """That roles without names go by the order of the parameters."""
    pointers = [one for one in drafted.arguments if one.parameter.pointer]
    unnamed = [one for one in pointers if _is_unnamed(one.parameter)]
    if not unnamed or any(one.role in ("", TODO) for one in unnamed):
        return []
    given = ", ".join(f"{one.parameter.name} is {one.role}" for one in unnamed)
    return [f"{given}: by the order of what is read and written, as PTX keeps no names"]


_OPTIONS = {"grid": "--grid X[,Y[,Z]]", "block": "--block X[,Y[,Z]]", "shared": "--shared BYTES"}


def _questions(drafted: CardDraft, options: SubjectOptions, found: Recognised) -> list[tuple[str, str]]:
    """(what, why) of all that only the user can say; with the operation open, nothing that depends on it."""
    questions = [(one.what, one.why) for one in drafted.open]
    told = set(options.symbols)
    questions += [
        (f"--symbol {symbol}=…", f"nothing tells the {meaning} that the kernel is made for")
        for symbol, meaning in drafted.unstated.items()
        if not {symbol, f"{symbol}q"} & told
    ]
    questions = [(_OPTIONS.get(what, what), why) for what, why in questions]
    if options.computes:
        return questions
    known = ", ".join(name for name in OPERATIONS if name != "python")
    likely = f"{found.operation} is the likeliest, {_opinion(found)}" if found.likely else found.because
    asked = ("--computes OPERATION", f"what should the kernel compute? one of {known} ({likely})")
    return [asked, *(one for one in questions if one[0] in _OPTIONS.values())]


def _asked(
    path: Path, facts: PtxFacts, options: SubjectOptions, questions: Sequence[tuple[str, str]]
) -> ConfigurationError:
    """All that is open, with what is known, and the command that goes on."""
    lines = [f"  {what}: {why}" for what, why in questions]
    numbers = [one.name for one in facts.parameters if not one.pointer and not one.value]
    if not options.computes and numbers:
        lines.append(f"  values of {', '.join(numbers)}: only a card can give them")
    lines.append("known:")
    block = options.block or facts.block
    lines += [f"  block: {', '.join(block)}"] if block else []
    lines += [f"  {_described(one)}" for one in facts.parameters if one.pointer]
    lines += [f"  {one}" for one in (*facts.remarks, *facts.notes)]
    quoted = shlex.quote(str(path))
    entry = f" --entry {shlex.quote(options.entry)}" if options.entry else ""
    open_values = numbers and not options.computes
    answers = [what for what, _ in questions if what.startswith("--")]
    if len(answers) == len(questions) and not open_values:
        hint = f"wmmadiag check {quoted} {shlex.join(options.words())} {' '.join(answers)}".replace("  ", " ")
        hint += f"; or write a card with `wmmadiag init {quoted}{entry}`"
    else:
        computes = f" --computes {options.computes}" if options.computes else ""
        hint = f"write a card with `wmmadiag init {quoted}{entry}{computes}`, fill in its TODOs, and check that"
    beside = path.with_suffix(".toml")
    if beside.is_file():
        hint = f"check its card: wmmadiag check {shlex.quote(str(beside))}"
    return ConfigurationError(
        f"{path}: not everything about the kernel '{facts.name}' can be derived from its PTX",
        detail="\n".join(lines),
        hint=hint,
    )


def _described(parameter: DraftParameter) -> str:
    name = f"{parameter.struct}.{parameter.label}" if parameter.struct else parameter.name
    does = "read" if parameter.const else "added to" if parameter.added else "written"
    return f"{name}: a pointer to {parameter.dtype or parameter.c_type}, which is {does}"
