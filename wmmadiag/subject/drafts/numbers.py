"""The numbers that a kernel gets: what their names say, else what host code passes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

import numpy as np

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import NotWritten, Term
from wmmadiag.hostcode.values import Pointer, Value
from wmmadiag.numerics.element_types import element_type, storage_dtype
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts import storage, storage_facts
from wmmadiag.subject.drafts.guess import distance_for, parameter_named, role_of_distance, symbol_for, value_for
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.meanings import Meanings, is_real, meaning_of
from wmmadiag.subject.drafts.model import TODO, CardDraft, DraftArgument, Open

PASSED = "as the source passes it"
BY_NAME = "by its name"


_SWITCHES = frozenset({"use", "do", "apply", "with", "has", "fuse", "fused", "is", "enable", "add"})
"""Words before the name of what a flag switches on."""


def give_number(
    result: CardDraft, argument: DraftArgument, meant: Meanings, laid: storage.Storage, kernel: SourceKernel
) -> None:
    """A number: what its own name says, else what the host passes."""
    parameter = argument.parameter
    if parameter.value:
        padding = parameter.label.startswith("padding")
        argument.value = parameter.value
        argument.reason = "padding" if padding else "null in the source's host code, or nothing reads it"
        return
    if argument.dtype == TODO:
        remark = f" ({parameter.remark})" if parameter.remark else ""
        why = (
            f"its C type is '{parameter.c_type}'{remark}; of a struct a card gives the members in order: "
            'fields = [{ role = "q", dtype = "f16" }, { dtype = "s32", value = "S" }]'
        )
        result.open.append(Open(f"the value of '{parameter.name}'", why, "type"))
        argument.value = TODO
        return
    passed = _passed_text(argument, meant)
    if is_real(parameter):
        _real(result, argument, passed, kernel)
    else:
        _integer(result, argument, passed, laid, meant)
    if argument.value == "" and parameter.unread:
        argument.value, argument.reason = "0", "nothing reads it"
    known = OPERATIONS[result.operation].parameters.get(argument.value)
    if known is not None and known.kind == "flag" and argument.value in result.fixed:
        argument.value, argument.reason = result.fixed[argument.value], "as its instantiation has it"
    if not argument.value and (told := _flag_of_word(result, parameter.name)):
        argument.value, argument.reason = "1", f"{told}, where it is not 0"
        result.switched.append(f"'{parameter.name}' is 1 where {told}")
    if not argument.value:
        argument.value, argument.reason = TODO, ""
        why = "its name and the source's launch do not tell"
        result.open.append(Open(f"the value of '{parameter.name}'", why, "value"))


def _flag_of_word(result: CardDraft, name: str) -> str:
    """What a whole number switches on whose name is the word of a setting that the code has a formula for: `relu`,
    `use_relu`; "" for nothing."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    own = "_".join(parts[1:] if len(parts) > 1 and parts[0] in _SWITCHES else parts)
    settings = ((key, result.computes.get(key)) for key in OPERATIONS[result.operation].parameters)
    return next((f"the {key} is {word}" for key, word in settings if word and own == word.partition("_")[0]), "")


def note_ignored(result: CardDraft, kernel: SourceKernel) -> None:
    """Say of numbers that nothing reads what they mean, where the operation computes with that."""
    for one in result.arguments:
        if one.parameter.unread and not one.parameter.pointer:
            one.ignored = _ignored(result, one, kernel)


def _ignored(result: CardDraft, argument: DraftArgument, kernel: SourceKernel) -> str:
    """The meaning, "" of what is none that the operation computes with.

    An extent may well go unread: the grid or a constant knows it. So may what the source always passes as one number.
    """
    name, known = argument.parameter.name, OPERATIONS[result.operation]
    if isinstance(argument.passed, Term) and terms.value(argument.passed, kernel.usual) is not None:
        return ""
    told = parameter_named(name, result.operation)
    if told is not None and (told.drafted or told.default == "1"):
        return told.meaning
    rows = distance_for(name, result.operation, batches=False)
    if rows is not None and _is_distance(argument.passed, kernel, result.operation):
        return f"leading dimension of {rows.role}"
    of = result.holding(role_of_distance(name, result.operation))
    if of is None or not {"B", "batch"} & set().union(*map(names_in, result.grid), ()):
        return ""
    role = known.roles.get(of.role)
    laid = of.layout or (role.usual if role is not None else "")
    return f"distance between what batches have of '{of.parameter.name}'" if laid and "B" not in laid else ""


def _is_distance(passed: Value | None, kernel: SourceKernel, operation: str) -> bool:
    """Whether host code passes what is a distance by its name there, too, or nobody says what is passed."""
    if passed is None:
        return True
    names = terms.symbols(passed) if isinstance(passed, Term) and passed.op == "symbol" else set()
    own = kernel.machine.names if kernel.machine is not None else {}
    every = {*names, *(other for one in names for other in own.get(one, ()))}
    return any(distance_for(one, operation, batches=False) for one in every)


def ask_reaches(result: CardDraft) -> None:
    """Leave open what windows mean: where no run shows it, keys before a query's own are as likely as those with it."""
    known = OPERATIONS[result.operation].parameters
    for one in result.arguments:
        if one.value in known and known[one.value].kind == "reach":
            why = f'if it is a window of keys: value = "W" here, and in [computes] {one.value} = "W", or "W - 1"'
            result.open.append(Open(f"the value of '{one.parameter.name}'", why, "value"))
            result.computes.pop(one.value, None)
            one.value, one.reason = TODO, ""


def ask_shared(result: CardDraft, told: Collection[str]) -> None:
    """Leave open what numbers mean that go by one extent's name where nothing speaks of another extent.

    Args:
        told: the symbols that arguments, launch, instantiation and options speak of.
    """
    known = OPERATIONS[result.operation]
    silent = {name for name in known.cases[-1] if name in known.extents and name != known.optional} - set(told)
    named: dict[str, list[DraftArgument]] = {}
    for one in result.arguments:
        if not one.parameter.pointer and one.value and one.value == symbol_for(one.parameter.name, result.operation):
            named.setdefault(one.value, []).append(one)
    shared = [several for several in named.values() if len(several) > 1]
    for several in shared if silent else ():
        names = " or ".join(f"'{one.parameter.name}'" for one in several)
        why = f"its name says the same as another's, and nothing speaks of {' and '.join(sorted(silent))}"
        result.open.append(Open(f"which of {names} is {several[0].value}", why, "value"))
        for one in several:
            one.value, one.reason = TODO, ""


def _passed_text(argument: DraftArgument, meant: Meanings) -> str:
    """What host code passes, as a card's expression; "" where it cannot be said."""
    try:
        return meant.text(argument.passed)
    except NotWritten:
        return ""


def _integer(result: CardDraft, argument: DraftArgument, passed: str, laid: storage.Storage, meant: Meanings) -> None:
    parameter, operation = argument.parameter, result.operation
    named = meaning_of(parameter, operation)
    if passed and _is_settled(passed, result):
        argument.value, argument.reason = passed, PASSED
        return
    if named is not None:
        argument.value, argument.reason = named, BY_NAME
        return
    rows, batches = (distance_for(parameter.name, operation, batches=one) for one in (False, True))
    told = value_for(parameter.name, operation) or (rows.value if rows is not None else None)
    if told is not None or batches is not None:
        argument.value = batches.value if batches is not None and _is_batched(result, argument, meant) else told or ""
        argument.reason = BY_NAME
        if (known := OPERATIONS[operation].parameters.get(argument.value)) is not None and known.kind == "reach":
            result.remarks.append(f"'{parameter.name}' is the number of {known.meaning}")
        return
    stride = storage_facts.stride_value(parameter.name, operation, laid)
    if stride:
        argument.value, argument.reason = stride, "a stride, by its name"
    elif passed and not unknown_symbols(result, passed, meant.usual):
        argument.value, argument.reason = passed, PASSED


def unknown_symbols(result: CardDraft, text: str, usual: Collection[str]) -> set[str]:
    """The symbols of an expression that no case gives a value."""
    known = OPERATIONS[result.operation]
    own = {*known.symbols, "S", *(name for table in known.cases for name in table), *known.parameters}
    return set(names_in(text)) - own - set(usual) - set(result.fixed)


def _is_batched(result: CardDraft, argument: DraftArgument, meant: Meanings) -> bool:
    """Whether a distance is that of whole matrices: these are counted, or another number is that of the same's rows."""
    own = distance_for(argument.parameter.name, result.operation, batches=False)
    if own is None or any("batch" in terms.symbols(one) for one in meant.by_symbol.values()):
        return True
    for one in result.arguments:
        other = distance_for(one.parameter.name, result.operation, batches=False) if not one.parameter.pointer else None
        if one is not argument and other == own:
            return True
    return False


def _is_settled(text: str, result: CardDraft) -> bool:
    """Whether an expression depends on nothing but what the card knows."""
    known = set(OPERATIONS[result.operation].symbols) | {"S"}
    for table in OPERATIONS[result.operation].cases:
        known |= set(table)
    return bool(names_in(text)) and names_in(text) <= known


def _real(result: CardDraft, argument: DraftArgument, passed: str, kernel: SourceKernel) -> None:
    parameter = argument.parameter
    known = OPERATIONS[result.operation].parameters
    told = value_for(parameter.name, result.operation)
    if told is not None and told in known and known[told].drafted:
        if parameter.unread:  # a factor that the kernel ignores is what the source always passes for it
            number = terms.value(argument.passed, kernel.usual) if isinstance(argument.passed, Term) else None
            argument.value = f"{number:g}" if number is not None else str(known[told].default)
            argument.reason = "the kernel ignores it"
            result.computes[told] = argument.value
            return
        if (number := _held_to(argument, kernel)) is not None:
            argument.value, argument.reason = f"{number:g}", "the source launches it for no other"
            result.computes[told] = argument.value
            return
        argument.value, argument.reason = told, BY_NAME
        return
    floats = [one for one in result.arguments if not one.parameter.pointer and is_real(one.parameter)]
    if told is None and len(floats) == 1 and "scale" in known and not _is_known_number(passed):
        argument.value, argument.reason = str(known["scale"].default), "the only floating-point number"
        return
    factor = next(
        (name for name, one in known.items() if one.kind == "real" and one.drafted and one.default == "1"), ""
    )
    if told is None and len(floats) == 1 and factor and not _is_known_number(passed) and factor not in result.computes:
        argument.value, argument.reason, result.computes[factor] = factor, "the only floating-point number", factor
        return
    alone = _is_known_number(passed) and told is not None and "scale" in known
    if alone or (passed and (names_in(passed) or told is None) and _only_settled(passed, result)):
        argument.value, argument.reason = passed, PASSED
        if told is not None and "scale" in known:
            _scaled(result, passed, told)
        return
    if told is not None:
        argument.value, argument.reason = told, BY_NAME


def _only_settled(text: str, result: CardDraft) -> bool:
    return not names_in(text) or _is_settled(text, result)


def _is_known_number(text: str) -> bool:
    return re.fullmatch(r"-?[\d.]+(?:e-?\d+)?", text) is not None


def _scaled(result: CardDraft, passed: str, told: str) -> None:
    """The scale that host code passes, itself or times a number, is what the kernel computes with.

    Args:
        told: what the parameter's name says that is passed: the usual scale, or that times a number.
    """
    default = str(OPERATIONS[result.operation].parameters["scale"].default)
    try:
        factor = terms.combined("/", terms.parsed(told), terms.parsed(default))
        numbers = dict.fromkeys(terms.symbols(factor), 64)
        times = terms.value(factor, numbers)
        same = terms.same(terms.parsed(passed), terms.parsed(told)) or _near(passed, told)
    except NotWritten:
        return
    if times and not same:
        result.computes["scale"] = passed if math.isclose(times, 1.0) else f"({passed}) / {times:.17g}"


def _near(one: str, other: str) -> bool:
    """Whether two expressions are equal but for how a constant in them is rounded."""
    first, second = terms.parsed(one), terms.parsed(other)
    for sample in (48, 80):
        values = [terms.value(each, dict.fromkeys(terms.symbols(each), sample)) for each in (first, second)]
        if None in values or not math.isclose(values[0] or 0, values[1] or 0, rel_tol=1e-5):
            return False
    return True


def hold_one_number(result: CardDraft, argument: DraftArgument) -> None:
    """An array that is spread over axes, of which the kernel reads one number: it has that of the matrices alone."""
    known = OPERATIONS[result.operation]
    role = known.roles.get(argument.role)
    if role is None or not role.usual or not argument.parameter.single or role.shape[0] != known.optional:
        return
    size = argument.passed.buffer.size if isinstance(argument.passed, Pointer) else None
    element = element_type(argument.dtype)
    if size is None or (element is not None and terms.value(size, {}) == element.bytes):
        argument.layout = role.axes[0]
        result.remarks.append(f"'{argument.parameter.name}' is one number, as the kernel reads no other")


def number_of_bytes(content: str, dtype: str) -> str:
    """The number that elements of a type are whose bytes are all one; "" where nothing says, or that is none."""
    element, byte = element_type(dtype), content.removeprefix("bytes ")
    if content == "zero" or element is None or not byte.isdecimal():
        return "0" if content == "zero" else ""
    number = float(np.frombuffer(bytes([int(byte)]) * element.bytes, storage_dtype(element))[0])
    return "" if math.isnan(number) else repr(number if element.is_float else int(number))


def _held_to(argument: DraftArgument, kernel: SourceKernel) -> terms.Number | None:
    """The real number that a launch is made for alone: `if (alpha == 1) k<false><<<…>>>(alpha);`, or with 1 itself."""
    for condition, holds in kernel.launch.facts if kernel.launch is not None else ():
        if condition.op != ("==" if holds else "!="):
            continue
        for one, other in (condition.args, condition.args[::-1]):
            equal = isinstance(one, Term) and isinstance(other, Term) and one.op == "symbol" and one.real
            if equal and other.op == "number" and argument.passed in (one, terms.number(other.args[0])):
                number: terms.Number = other.args[0]
                return number
    return None
