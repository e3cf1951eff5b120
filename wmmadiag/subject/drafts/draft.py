"""Drafting a card from a kernel's signature and its launches in the same source: suggestions with their reasons."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.c_expressions import CannotTranslate, HostScope, dimensions, translate
from wmmadiag.subject.drafts.gemm import gemm_parameters, leading_dimensions, only_size, square_sizes, unread_factors
from wmmadiag.subject.drafts.guess import (
    Parameter,
    distance_for,
    symbol_for,
    value_for,
)
from wmmadiag.subject.drafts.host_scope import (
    Ask,
    Launched,
    host_names,
    host_scope,
    replaced,
    same_text,
)
from wmmadiag.subject.drafts.host_tensors import TensorAxes, stride_for
from wmmadiag.subject.drafts.model import TODO, Draft, DraftArgument, Wishes
from wmmadiag.subject.drafts.source_facts import (
    accumulates_in_half,
    constants,
    guards_length,
    template_parameters,
    template_values,
    told_by_formulas,
    uses_tf32,
    without_comments,
)
from wmmadiag.subject.drafts.tensors import (
    layouts_by_strides,
    layouts_of_tensors,
    memory,
    missing_roles,
    roles_of_pointers,
    terms_of_scores,
)
from wmmadiag.subject.dtypes import element_type
from wmmadiag.subject.expressions import ExpressionError, evaluate, names_in

_LARGEST_FIXED = 1024


def draft(
    entry: str,
    parameters: Sequence[Parameter],
    launches: Sequence[Launched],
    source: str,
    operation: str,
    wishes: Wishes | None = None,
    ask: Ask | None = None,
) -> Draft:
    """Guess a card.

    Args:
        entry: the kernel's name or name expression, as the user gave it.
        parameters: of the kernel, in order.
        launches: of this kernel in the source's host code.
        source: the source's text.
        operation: what the kernel computes.
        wishes: launch configuration that the user gave.
        ask: for constants that only the compiler knows.
    """
    wishes = wishes or Wishes()
    result = Draft(entry, operation)
    known = constants(source)
    launch = launches[0] if launches else None
    if launch is not None and launch.template_arguments and "<" not in entry:
        _template_arguments(result, launch, known, source)
    taken = {symbol_for(p.name, operation) for p in parameters if not p.pointer}
    chosen = {name: text for name, text in template_values(source, result.entry).items() if "{" not in text}
    _fix_symbols(result, {**known, **chosen}, taken)
    for name, text in chosen.items():
        if value_for(name, operation) == "causal" and text in ("true", "false", "1", "0"):
            result.fixed["causal"] = str(int(text in ("true", "1")))
    parameters = [
        replace(parameter, dtype=chosen[parameter.c_type])
        if parameter.dtype is None and element_type(chosen.get(parameter.c_type, "")) is not None
        else parameter
        for parameter in parameters
    ]
    roles_of_pointers(result, parameters, uses_tf32(source))
    result.numbers = [parameter for parameter in parameters if not parameter.pointer]
    if all(element_type(parameter.dtype or "") is not None for parameter in result.numbers):
        missing_roles(result)  # a struct may hold them
    if operation in ("attention", "qkt"):
        terms_of_scores(result)
    if operation == "gemm":
        gemm_parameters(result)
    for name, word in told_by_formulas(operation, source).items():
        result.computes[name] = word
        result.remarks.append(f"the {name} is {word}, as the source has its formula")
    if "accumulate" in OPERATIONS[operation].parameters and accumulates_in_half(source):
        result.computes["accumulate"] = "f16"
        result.remarks.append("sums are kept in f16, as the source's accumulators are")
    symbols = _host_symbols(result, parameters, launch)
    roles = {argument.parameter.name: argument.role for argument in result.arguments}
    scope, axes = host_scope(launch, source, operation, parameters, roles, symbols, ask)
    layouts_of_tensors(result, axes)
    pointers = {argument.parameter.name: argument for argument in result.arguments}
    result.arguments = [
        pointers[parameter.name] if parameter.pointer else _scalar(result, parameter, index, launch, scope, axes)
        for index, parameter in enumerate(parameters)
    ]
    if operation == "gemm":
        unread_factors(result, launch, scope, source)
        leading_dimensions(result)
    layouts_by_strides(result)
    for index, argument in enumerate(result.arguments):
        if argument.parameter.pointer:
            memory(result, argument, index, launch, scope, source)
    equal = {} if launch is None else same_text(launch, parameters, operation)
    _launch(result, launch, scope, wishes, equal)
    unlaunched = launch is None or launch.derived
    if unlaunched and not wishes.shared and re.search(r"\bextern\s+__shared__", without_comments(source)):
        result.shared = TODO
        result.open.append(("shared", "the source has no launch that gives the kernel its dynamic shared memory"))
    persistent = re.search(r"\bgridDim\b", without_comments(source)) is not None  # it takes any grid
    told = any(names_in(extent) for extent in result.grid)
    if launch is not None and not wishes.grid and not told and not persistent:
        _sizes_of_fixed_grid(result, parameters, launch, scope)
    if launch is not None and operation == "gemm" and not {"M", "N"} & set(result.fixed):
        result.square = square_sizes(parameters, launch, source)
    if operation == "gemm" and (size := only_size(result)):
        result.square = ""
        result.remarks.append(f"matrices are square: the kernel and its launch know one size, {size}")
    _untold(result)
    lengths = {name for name, symbol in symbols.items() if symbol in ("S", "Sq", "Skv")}
    result.tail = operation in ("attention", "qkt", "pv") and guards_length(source, lengths)
    return result


def _untold(result: Draft) -> None:
    """Extents of which neither the arguments nor the launch nor a constant speaks: any value would be a guess."""
    if result.operation not in ("attention", "qkt", "pv"):
        return
    texts = [argument.value for argument in result.arguments if not _is_scale(argument)]
    texts += [*result.grid, *result.block, result.shared, *re.findall(r"\{([^{}]*)\}", result.entry)]
    texts += [argument.size for argument in result.arguments]
    told = {*result.fixed, *(name for text in texts if text for name in names_in(text))}
    if "D" not in told and not {"Dv"} & told:
        result.untold["D"] = "head dimension"
    if not {"S", "Sq", "Skv"} & told:
        result.untold["S"] = "sequence length"


def _is_scale(argument: DraftArgument) -> bool:
    element = element_type(argument.parameter.dtype or "")
    return element is not None and element.is_float


def _sizes_of_fixed_grid(result: Draft, parameters: Sequence[Parameter], launch: Launched, scope: HostScope) -> None:
    """A grid of plain numbers fits only the extents that the source launches with: the cases take those."""
    nothing: dict[str, int] = {}
    for parameter, argument in zip(parameters, launch.arguments, strict=False):
        symbol = None if parameter.pointer else symbol_for(parameter.name, result.operation)
        if symbol is None or not symbol.isidentifier():
            continue
        try:
            plain = translate(argument.text, HostScope({}, scope.definitions, scope.helpers))
            value = evaluate(plain, nothing.__getitem__)
        except (CannotTranslate, ExpressionError):
            continue
        if isinstance(value, int) and value > _LARGEST_FIXED:
            result.open.append(("grid", f"the source launches for {symbol} = {value} only, which takes too long here"))
            return
        if isinstance(value, int):
            result.fixed[symbol] = str(value)
            result.remarks.append(f"{symbol} = {value}, since the source's grid is for that size")


def _template_arguments(result: Draft, launch: Launched, known: Mapping[str, str], source: str) -> None:
    """The instantiation that the source launches; arguments that stay open become symbols where they mean one."""
    host = host_names(launch, source)
    own = template_parameters(source, result.entry.split("::")[-1])
    filled = []
    for position, argument in enumerate(launch.template_arguments):
        text = replaced(argument.text, host)
        if text not in ("true", "false"):
            with contextlib.suppress(CannotTranslate):
                filled.append(translate(text, HostScope({}, known)))
                continue
        parameter = own[position] if position < len(own) else None
        meaning = None
        if re.fullmatch(r"[A-Za-z_]\w*", text) and (parameter is None or parameter.kind != "typename"):
            names = [text, parameter.name] if parameter is not None else [text]
            meanings = [symbol_for(name, result.operation) or value_for(name, result.operation) for name in names]
            meaning = next((m for m in meanings if m is not None and m.isidentifier()), None)
        filled.append(f"{{{meaning}}}" if meaning is not None and text not in ("true", "false") else text)
    result.entry = f"{result.entry}<{', '.join(filled)}>"
    result.remarks.append(f"the instantiation {result.entry} is the one that the source launches")


def _fix_symbols(result: Draft, known: Mapping[str, str], taken: set[str | None]) -> None:
    """Extents that the source fixes, those that the kernel gets as an argument aside."""
    for name in sorted(known, key=lambda name: (-len(name), name)):
        symbol = symbol_for(name, result.operation)
        if symbol is None or not symbol.isidentifier() or symbol in result.fixed or symbol in taken:
            continue
        try:
            value = translate(name, HostScope({}, known))
        except CannotTranslate:
            continue
        # `#define M 16` is a fragment's shape far more often than a matrix's.
        if re.fullmatch(r"[\d\s()*+/-]+", value) and not (name in "MNKmnk" and value in ("8", "16", "32")):
            result.fixed[symbol] = value
            result.remarks.append(f"{symbol} = {value}, as the source's {name} says")


def _host_symbols(result: Draft, parameters: Sequence[Parameter], launch: Launched | None) -> dict[str, str]:
    """What names in host code mean: by their own name, or because they are passed for a parameter of known meaning."""
    symbols: dict[str, str] = {}
    several: set[str] = set()  # names passed for more than one extent tell nothing
    names = {parameter.name for parameter in parameters if not parameter.pointer}
    if launch is not None:
        names |= {word for text in _texts(launch) for word in re.findall(r"[A-Za-z_]\w*", text)}
        own = {parameter.name: parameter for parameter in parameters if not parameter.pointer}
        for name, member in launch.members:
            if member in own and (meaning := _meaning(own[member], result.operation)) is not None:
                symbols[name] = meaning
        for parameter, argument in zip(parameters, launch.arguments, strict=False):
            symbol = symbol_for(parameter.name, result.operation)
            named = not parameter.pointer and re.fullmatch(r"[A-Za-z_]\w*", argument.text)
            if named and symbol and symbols.setdefault(argument.text, symbol) != symbol:
                several.add(argument.text)
    local = {name for name, _ in launch.locals} if launch is not None else set()
    integers = {parameter.name for parameter in parameters if not parameter.pointer}
    for name in sorted(names):
        symbol = symbol_for(name, result.operation)
        # A local variable of one letter may be anything; a parameter means what it says.
        telling = name in integers or len(name) > 1 or name.isupper() or name not in local
        if symbol and name not in symbols and telling:
            symbols[name] = symbol
    return {name: symbol for name, symbol in symbols.items() if name not in several}


def _meaning(parameter: Parameter, operation: str) -> str | None:
    """What a member's own name says that it is."""
    element = element_type(parameter.dtype or "")
    if element is None or parameter.value:
        return None
    value = value_for(parameter.name, operation)
    return value if element.is_float else value or symbol_for(parameter.name, operation)


def _texts(launch: Launched) -> list[str]:
    parts = [launch.grid, launch.block, launch.shared, *launch.arguments, *(value for _, value in launch.locals)]
    return [part.text for part in parts if part is not None]


def _gemm_distance(parameter: Parameter, index: int, launch: Launched | None, scope: HostScope) -> str | None:
    """A leading dimension or batch stride: what the source passes for it, if that is an extent or a product of some."""
    found = distance_for(parameter.name, "gemm", batches=True)
    stride = None if found is None else found.value
    if stride is None and (value_for(parameter.name, "gemm") or "alpha") in ("alpha", "beta"):
        return None
    if launch is not None and index < len(launch.arguments):
        with contextlib.suppress(CannotTranslate):
            value = translate(launch.arguments[index].text, scope)
            if names_in(value) & {"M", "N", "K"}:
                return value
    return stride if "batch" in scope.symbols.values() else None


def _scalar(
    result: Draft, parameter: Parameter, index: int, launch: Launched | None, scope: HostScope, axes: TensorAxes
) -> DraftArgument:
    """A number: by its name, else by what the source's own launch passes for it."""
    argument = DraftArgument(parameter)
    element = element_type(parameter.dtype or "")
    argument.dtype = element.name if element is not None else TODO
    if parameter.value:
        padding = parameter.label.startswith("padding")
        reason = "padding" if padding else "null in the source's host code, or nothing reads it"
        argument.value, argument.reason = parameter.value, reason
        return argument
    if element is None:
        remark = f" ({parameter.remark})" if parameter.remark else ""
        result.open.append(
            (
                f"the value of '{parameter.name}'",
                f"its C type is '{parameter.c_type}'{remark}; of a struct a card gives the members in order: "
                'fields = [{ role = "q", dtype = "f16" }, { dtype = "s32", value = "S" }]',
            )
        )
        argument.value = TODO
        return argument
    value = value_for(parameter.name, result.operation)
    if result.operation == "gemm" and (element is None or not element.is_float):
        value = _gemm_distance(parameter, index, launch, scope) or value
    symbol = None
    if element is None or not element.is_float:
        symbol = symbol_for(parameter.name, result.operation)
    argument.value = value or symbol or ""
    argument.reason = "by its name" if argument.value else ""
    if result.operation == "gemm" and value and launch is not None and index < len(launch.arguments):
        with contextlib.suppress(CannotTranslate):
            if translate(text := launch.arguments[index].text, scope) == value:
                argument.reason = f"the source passes `{text}`"
    if not argument.value and launch is not None and index < len(launch.arguments):
        text = launch.arguments[index].text
        with contextlib.suppress(CannotTranslate):
            argument.value, argument.reason = translate(text, scope), f"the source passes `{text}`"
    if not argument.value and (stride := stride_for(parameter.name, result.operation, axes)):
        argument.value, argument.reason = stride, f"a stride of {axes.card_layout()}, by its name"
    floats = [p for p in result.numbers if (e := element_type(p.dtype or "")) is not None and e.is_float]
    if not argument.value and floats == [parameter] and "scale" in OPERATIONS[result.operation].parameters:
        argument.value = str(OPERATIONS[result.operation].parameters["scale"].default)
        argument.reason = "the only floating-point number"
    if not argument.value and parameter.unread:
        argument.value, argument.reason = "0", "nothing reads it"
    # A launch for one window says nothing of which keys it leaves; a negative one is none.
    window = "window" in parameter.name.lower() and "window_left" in OPERATIONS[result.operation].parameters
    if not argument.value or (window and not parameter.unread and not re.fullmatch(r"\(?-\d+\)?", argument.value)):
        argument.value, argument.reason = TODO, ""
        why = 'if it is a window of keys: value = "W" here, and in [computes] window_left = "W", or "W - 1"'
        why = why if window else "its name and the source's launch do not tell"
        result.open.append((f"the value of '{parameter.name}'", why))
    return argument


def _launch(result: Draft, launch: Launched | None, scope: HostScope, wishes: Wishes, equal: Mapping[str, str]) -> None:
    """Grid, block and shared memory: as the user says, else as the source launches."""
    for name, wish in (("grid", wishes.grid), ("block", wishes.block)):
        given = launch.grid if launch is not None and name == "grid" else launch.block if launch is not None else None
        found: list[str] = list(wish)
        reason = "the source has no launch of this kernel"
        if not found and given is not None:
            try:
                found = dimensions(given.text, scope, lambda text, inner: equal.get(text) or translate(text, inner))
            except CannotTranslate as error:
                reason = f"the source launches with `{given.text}`: {error}"
        while len(found) > 1 and found[-1] == "1":
            found.pop()
        if not found:
            result.open.append((name, reason))
            found = [TODO]
        setattr(result, name, found)
    if wishes.shared:
        result.shared = wishes.shared
    elif launch is not None and launch.shared is not None:
        try:
            result.shared = translate(launch.shared.text, scope)
        except CannotTranslate as error:
            result.shared = TODO
            result.open.append(("shared", f"the source launches with `{launch.shared.text}`: {error}"))
