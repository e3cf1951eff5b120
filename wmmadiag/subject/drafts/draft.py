"""From a kernel and its launch to a card in the making: roles, values, launch, and what is assumed or still open."""

from __future__ import annotations

import math
import re

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import NotWritten
from wmmadiag.hostcode.types import scalar
from wmmadiag.hostcode.values import Pointer, Value
from wmmadiag.numerics.element_types import element_type
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts import storage, storage_facts
from wmmadiag.subject.drafts.array_extents import counters, sized_by
from wmmadiag.subject.drafts.code_facts import card_type, uses_tf32
from wmmadiag.subject.drafts.draft_parameters import give_parameters
from wmmadiag.subject.drafts.evidence import product_of
from wmmadiag.subject.drafts.facts import note_facts
from wmmadiag.subject.drafts.guess import covered_roles, number_behind, role_remark, roles_for
from wmmadiag.subject.drafts.in_place import updated_roles
from wmmadiag.subject.drafts.instantiations_beside import launched_otherwise
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.meanings import Meanings, is_real, meanings, with_rows
from wmmadiag.subject.drafts.model import TODO, CardDraft, DraftArgument, Open, Wishes, is_input
from wmmadiag.subject.drafts.numbers import (
    ask_shared,
    give_number,
    note_ignored,
    number_of_bytes,
    unknown_symbols,
)


def draft(kernel: SourceKernel, operation: str, wishes: Wishes | None = None) -> CardDraft:
    """Guess a card.

    Args:
        operation: what the kernel computes.
        wishes: what the user said.
    """
    wishes = wishes or Wishes()
    kernel = with_rows(kernel, operation)
    result = CardDraft(kernel.entry, operation)
    _roles(result, kernel)
    evidence = product_of(result, kernel)
    meant = meanings(kernel, operation)
    if evidence is not None:
        evidence.apply(result, meant)
    give_parameters(result, kernel, wishes)
    laid = _stored(result, kernel, meant)
    for argument in result.arguments:
        if argument.parameter.pointer:
            _memory(result, argument, kernel, meant)
        else:
            give_number(result, argument, meant, laid, kernel)
    _missing(result)
    _entry(result, kernel, meant)
    _launch(result, kernel, meant, wishes)
    note_ignored(result, kernel)
    result.fixed |= {name: str(value) for name, value in meant.fixed.items()}
    result.usual |= meant.usual
    result.equal += meant.equal
    _squares(result)
    note_facts(result, kernel, meant, spoken_of(result))
    ask_shared(result, {*result.fixed, *wishes.symbols, *spoken_of(result)})
    _untold(result, wishes, kernel)
    if kernel.other_shape.numbers and kernel.varied <= meant.usual.keys() - wishes.symbols.keys():
        result.varied = kernel.varied
        result.other_shape = draft(kernel.in_other_shape(), operation, wishes)
    return result


def _roles(result: CardDraft, kernel: SourceKernel) -> None:
    """A role and an element type for each pointer."""
    tf32 = uses_tf32(kernel.code)
    pointers = [one for one in kernel.parameters if one.pointer]
    roles = dict(zip(map(id, pointers), roles_for(pointers, result.operation), strict=True))
    for parameter, value in zip(kernel.parameters, kernel.passed, strict=True):
        argument = DraftArgument(parameter, value)
        element = element_type(parameter.dtype or "")
        if element is not None:
            argument.dtype = element.name
        behind = number_behind(parameter, result.operation) if parameter.pointer else None
        if behind is not None:
            argument.role, argument.size, argument.initial = "workspace", "1", behind
        elif parameter.pointer:
            argument.role = roles[id(parameter)] or TODO
            if element is not None and element.name == "f32" and tf32 and is_input(result, argument.role):
                argument.dtype = "tf32"
            elif element is not None and element.bytes == 1 and isinstance(value, Pointer):
                argument.dtype = _carried(value) or argument.dtype
            if element is None:
                why = parameter.remark or f"its C type is '{parameter.c_type}'"
                result.open.append(Open(f"the dtype of '{parameter.name}'", why, "type"))
        result.arguments.append(argument)


def _carried(passed: Pointer) -> str:
    """The type of floating-point numbers of a byte that host code has in memory which the kernel gets as bytes."""
    element = element_type(card_type(scalar(passed.buffer.element)[0]) or "")
    return element.name if element is not None and element.bytes == 1 and element.is_float else ""


def _missing(result: CardDraft) -> None:
    """Operands that no parameter is left for: an array for each of them is what the operation needs."""
    known = OPERATIONS[result.operation]
    present = covered_roles(result.operation, (one.role for one in result.arguments)) | updated_roles(result)
    parts = known.signs.parts if known.signs is not None else ()
    stages = " or ".join([one for one in parts if _inputs(one) <= present] or parts)
    for name, role in known.roles.items():
        if role.required and name not in present and TODO not in present:
            hint = f"; a kernel for a part of {result.operation} has --computes {stages}" if stages else ""
            what, why = f"the role '{name}' of {result.operation}", f"no array is left for it{hint}"
            result.open.append(Open(what, why, "operation", "--computes OP"))


def _inputs(operation: str) -> set[str]:
    return {name for name, role in OPERATIONS[operation].roles.items() if role.required and not role.output}


def _stored(result: CardDraft, kernel: SourceKernel, meant: Meanings) -> storage.Storage:
    """How tensors lie, as the host code shows it; extents and strides of tensors then mean what lies so."""
    storage_facts.name_extents(result, meant, kernel)
    by_columns = storage_facts.turned(kernel)
    facts = storage_facts.facts_of_tensors(result, meant, kernel.machine, by_columns)
    facts += storage_facts.facts_of_strides(result, meant)
    storage_facts.lay_packed(result, meant, kernel.machine)
    roles = sorted(covered_roles(result.operation, (one.role for one in result.arguments)) - {TODO, ""})
    roles = [one for one in roles if one in OPERATIONS[result.operation].roles]
    numbers = storage.numbers_of(result)
    given = {name: value for name, value in result.computes.items() if name.startswith("transpose")} | numbers
    plain = storage.Storage(
        given, {one.role: one.layout for one in result.arguments if one.layout not in ("", TODO) and one.role != TODO}
    )
    laid: storage.Storage | None = plain
    if facts and "storage" not in result.stated:
        laid = storage.stored(result.operation, roles, facts, numbers)
        if laid is not None:
            storage.apply(result, laid)
            if any(isinstance(one, storage.AxisStride) or one.index for one in facts):
                result.stated.add("storage")
    laid = laid or plain
    machine = kernel.machine
    if machine is None:
        return laid
    for name, (tensor, what, index) in machine.extents.items():
        role = next((one.role for one in result.arguments if _holds(one, tensor.buffer)), "")
        if name in meant.by_symbol or role not in OPERATIONS[result.operation].roles:
            continue
        axes = storage.extents(result.operation, role, laid)
        if id(tensor) in by_columns:
            rank, index = 2, 1 - index % 2
        else:
            axes = storage.joined_axes(axes, tensor, meant, machine)
            rank = tensor.rank or storage.rank_of(axes, tensor, meant, machine)
        axes = storage.kept_axes(axes, rank)
        if OPERATIONS[result.operation].roles[role].flat and tensor.rank <= 1:
            axes = [("".join(letters for letters, _ in axes), terms.product(extent for _, extent in axes))]
        if what == "numel" and axes:
            meant.by_symbol[name] = terms.product(extent for _, extent in axes)
        elif what == "size" and -len(axes) <= index < len(axes):
            meant.by_symbol[name] = axes[index][1]
        elif what == "stride" and -len(axes) <= index < len(axes):
            meant.by_symbol[name] = terms.product(extent for _, extent in axes[index % len(axes) + 1 :])
    return laid


def _holds(argument: DraftArgument, buffer: object) -> bool:
    return isinstance(argument.passed, Pointer) and argument.passed.buffer is buffer


def _is_set_in_part(result: CardDraft, argument: DraftArgument, passed: Pointer, meant: Meanings) -> bool:
    """Whether what host code fills is less than an output has, at any sizes: `cudaMemset(c, 0, m * n)` of halves."""
    known, element = OPERATIONS[result.operation], element_type(argument.dtype)
    if passed.buffer.bytes_set is None or argument.role not in known.roles or element is None:
        return False
    held, set_ = known.roles[argument.role].shape, meant.card(passed.buffer.bytes_set)
    if not all(one.isidentifier() for one in held) or not terms.symbols(set_) <= {*held}:
        return False
    for size in (64, 96):
        sizes = {name: 1 if name == known.optional else size for name in held}
        told = terms.value(set_, sizes)
        if told is None or told >= element.bytes * math.prod(sizes.values()):
            return False
    return True


def _memory(result: CardDraft, argument: DraftArgument, kernel: SourceKernel, meant: Meanings) -> None:
    """How host code makes an output or a workspace: its initial value and size."""
    passed = argument.passed
    if (isinstance(passed, Pointer) and not is_input(result, argument.role)) or argument.role == TODO:
        content = ""
        in_part = isinstance(passed, Pointer) and _is_set_in_part(result, argument, passed, meant)
        if isinstance(passed, Pointer) and kernel.launch is not None and not in_part:
            content = kernel.launch.contents.get(id(passed.buffer), ("", None))[0]
        argument.initial = number_of_bytes(content, argument.dtype) or argument.initial
    if argument.role != TODO:
        return
    size = sized_by(kernel).get(argument.parameter.name) or counters(argument)
    if size is not None and not argument.parameter.const:
        try:
            argument.size = meant.text(size)
        except NotWritten:
            argument.size = ""
        else:
            argument.role = "workspace"
            argument.initial = argument.initial or _filled(passed)
            scratch = f"'{argument.parameter.name}' is a workspace, as the source makes it"
            result.remarks.append(f"{scratch}: what is left in it is not judged")
            return
    remark = role_remark(argument.parameter.name) or "no input or output is left for it"
    result.open.append(Open(f"the role of '{argument.parameter.name}'", remark, "role"))


def _filled(passed: Value | None) -> str:
    """The number that host code fills a tensor with."""
    fill = passed.buffer.fill if isinstance(passed, Pointer) else ""
    fill = re.sub(r"(-?)\s*(?:std::numeric_limits<float>::infinity\(\)|INFINITY)", r"\1inf", fill)
    fill = re.sub(r"(?<=[\d.])[fF]$", "", fill)
    return fill if re.fullmatch(r"-?(?:inf|[\d.]+(?:e[+-]?\d+)?)", fill) else ""


def _entry(result: CardDraft, kernel: SourceKernel, meant: Meanings) -> None:
    """The instantiation that the host chooses; arguments that depend on sizes stay expressions."""
    if kernel.uninstantiated:
        wanted = ", ".join(one.name for one in kernel.uninstantiated)
        what = f"the template arguments {wanted}"
        whole = kernel.entry if "<" in kernel.entry else f"{kernel.entry}<{wanted}>"
        option = f"--entry '{whole}'"
        result.open.append(Open(what, "the source instantiates it nowhere", "instantiation", option))

    def told(match: re.Match[str]) -> str:
        try:
            return "{" + terms.text(meant.card(terms.parsed(match[1]))) + "}"
        except NotWritten:
            return match[0]

    result.entry = re.sub(r"\{([^{}]*)\}", told, result.entry)
    if "<" in result.entry and kernel.launch is not None:
        types = "" if kernel.host is None or not kernel.host.types else " with such types"
        one = "one" if kernel.others or launched_otherwise(kernel) else "the one"
        result.remarks.append(f"the instantiation {result.entry} is {one} that the source launches{types}")


def _launch(result: CardDraft, kernel: SourceKernel, meant: Meanings, wishes: Wishes) -> None:
    """Grid, block and shared memory: as the user says, else as the source launches."""
    launch = kernel.launch
    for name, wish in (("grid", wishes.grid), ("block", wishes.block)):
        found: list[str] = list(wish)
        why = "the source has no launch of this kernel"
        if not found and launch is not None:
            shape = launch.grid if name == "grid" else launch.block
            try:
                found = [meant.text(shape.members[axis].value) for axis in "xyz"]
            except NotWritten as error:
                why = f"the source's launch at {launch.place} gives it something that is not known: {error}"
        while len(found) > 1 and found[-1] == "1":
            found.pop()
        if not found:
            result.open.append(Open(name, why, "launch", f"--{name}"))
            found = [TODO]
        setattr(result, name, found)
    if wishes.shared:
        result.shared = wishes.shared
        return
    dynamic = re.search(r"\bextern\s+__shared__", kernel.code) is not None
    if launch is None and dynamic:
        why = "the source has no launch that gives the kernel its dynamic shared memory"
        result.shared = TODO
        result.open.append(Open("shared", why, "launch", "--shared"))
    elif launch is not None:
        try:
            result.shared = meant.text(launch.shared)
        except NotWritten as error:
            result.shared = TODO
            why = f"the source's launch at {launch.place}: {error}"
            result.open.append(Open("shared", why, "launch", "--shared"))


def _squares(result: CardDraft) -> None:
    """A kernel of matrices that knows one extent alone gets squares."""
    known = OPERATIONS[result.operation]
    extents = {name for table in known.cases for name in table} - set(known.symbols)
    told = spoken_of(result) & extents
    if known.distances and len(told) == 1 and not extents & set(result.fixed):
        result.equal.append(extents)
        result.remarks.append(f"matrices are square: the kernel and its launch know one size, {min(told)}")


def spoken_of(result: CardDraft) -> set[str]:
    """The symbols that arguments, launch and instantiation speak of."""
    texts = [one.value for one in result.arguments if not is_real(one.parameter)]
    texts += [*result.grid, *result.block, result.shared, *re.findall(r"\{([^{}]*)\}", result.entry)]
    texts += [one.size for one in result.arguments]
    return {name for text in texts if text for name in names_in(text)}


def _untold(result: CardDraft, wishes: Wishes, kernel: SourceKernel) -> None:
    """Extents of which neither the arguments nor the launch nor a constant speaks: any value would be a guess."""
    told = {*result.fixed, *spoken_of(result)} - {TODO}
    options = {"--grid": wishes.grid, "--block": wishes.block, "--shared": [wishes.shared or "0"]}
    options = {option: [f"({text})" for text in texts] for option, texts in options.items() if texts}
    for name in sorted(unknown_symbols(result, " + ".join(sorted(told)), result.usual) - set(wishes.symbols)):
        said = next((option for option, texts in options.items() if name in names_in(" + ".join(texts))), "")
        if said:
            why = f"it stands in {said}, and nothing of the kernel or the source has that name"
            result.open.append(Open(f"the value of `{name}`", why, "value", f"--symbol {name}="))
            continue
        written = next(iter(kernel.machine.names.get(name, ())), name) if kernel.machine is not None else name
        what = f"the value of `{written}` in host code"
        result.open.append(Open(what, "nothing tells it", "value", f"--symbol {name}="))
    known = OPERATIONS[result.operation]
    for symbol, meaning in known.made_for.items():
        if not {symbol, *(name for name, text in known.symbols.items() if text == symbol)} & told:
            result.unstated[symbol] = meaning
