"""What a draft of a GEMM says beyond its arguments: factors, what is added, and how the matrices lie."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from wmmadiag.subject.drafts.c_expressions import CannotTranslate, HostScope, translate
from wmmadiag.subject.drafts.guess import Parameter, distance_for, symbol_for, value_for
from wmmadiag.subject.drafts.host_scope import Launched
from wmmadiag.subject.drafts.model import Draft
from wmmadiag.subject.drafts.source_facts import constants, without_comments
from wmmadiag.subject.expressions import ExpressionError, evaluate, names_in


def square_sizes(parameters: Sequence[Parameter], launch: Launched, source: str) -> str:
    """The sizes that the source launches with, where they are plain numbers and the result is a square; else ""."""
    known = {**constants(source), **{name: value.text for name, value in launch.locals}}
    sizes: dict[str, int] = {}
    nothing: dict[str, int] = {}
    for parameter, argument in zip(parameters, launch.arguments, strict=False):
        symbol = None if parameter.pointer else symbol_for(parameter.name, "gemm")
        if symbol in ("M", "N", "K"):
            with contextlib.suppress(CannotTranslate, ExpressionError, KeyError):
                sizes[symbol] = int(evaluate(translate(argument.text, HostScope({}, known)), nothing.__getitem__))
    if "M" not in sizes or sizes["M"] != sizes.get("N"):
        return ""
    names = [symbol for symbol in "MNK" if sizes.get(symbol) == sizes["M"]]
    return f"{' = '.join(names)} = {sizes['M']}"


def only_size(result: Draft) -> str:
    """The one extent that a kernel and its launch speak of: its matrices are square then; "" for none or several."""
    texts = [*(argument.value for argument in result.arguments), *result.grid, *result.block, result.shared]
    texts += [*(argument.size for argument in result.arguments), *re.findall(r"\{([^{}]*)\}", result.entry)]
    told = {name for text in texts if text for name in names_in(text)} & {"M", "N", "K"}
    return told.pop() if len(told) == 1 and not {"M", "N", "K"} & set(result.fixed) else ""


def gemm_parameters(result: Draft) -> None:
    """Factors that the kernel takes; and C, which a kernel with beta reads even where it also writes it."""
    named = {value_for(parameter.name, "gemm") for parameter in result.numbers}
    factors = [name for name in ("alpha", "beta") if name in named]
    result.computes.update({name: name for name in factors})
    by_role = {argument.role: argument for argument in result.arguments}
    if "beta" in factors and "c" not in by_role and "d" in by_role and not by_role["d"].parameter.const:
        by_role["d"].role, by_role["d"].direction = "c", "inout"
    elif "c" not in by_role and "d" in by_role and by_role["d"].parameter.added:
        by_role["d"].role, by_role["d"].direction = "c", "inout"
        result.computes["beta"] = "1"
        result.remarks.append(f"the product is added to '{by_role['d'].parameter.name}', which the kernel reads")
    elif "c" in by_role and "beta" not in factors:
        result.computes["beta"] = "1"
        result.remarks.append(f"'{by_role['c'].parameter.name}' is added, since there is no beta")


def unread_factors(result: Draft, launch: Launched | None, scope: HostScope, source: str) -> None:
    """A factor that the kernel ignores is what the source always passes for it: 1, as a rule."""
    for index, argument in enumerate(result.arguments):
        name = value_for(argument.parameter.name, "gemm")
        if not argument.parameter.unread or name not in ("alpha", "beta") or argument.value != name:
            continue
        nothing: dict[str, int] = {}
        passed = launch.arguments[index].text if launch is not None and index < len(launch.arguments) else ""
        plain = without_comments(source)
        set_to = set(re.findall(rf"\b{re.escape(passed)}\s*=(?!=)\s*([^,;]+)", plain) if passed.isidentifier() else ())
        passed = next(iter(set_to)) if len(set_to) == 1 else passed
        with contextlib.suppress(CannotTranslate, ExpressionError, KeyError):
            value = evaluate(translate(passed, HostScope({}, scope.definitions, scope.helpers)), nothing.__getitem__)
            argument.value, argument.reason = f"{value:g}", f"the source passes `{passed}`, and the kernel ignores it"
            result.computes[name] = argument.value
            result.remarks.append(f"{name} is always {value:g}: the kernel ignores '{argument.parameter.name}'")


# How a matrix lies whose leading dimension is that extent, where it does not lie by rows.
_BY_COLUMNS = {("a", "M"): "KxM", ("b", "K"): "NxK", ("d", "M"): ""}


def leading_dimensions(result: Draft) -> None:
    """How matrices lie, by the leading dimensions that host code passes."""
    passed: dict[str, set[str]] = {}
    for argument in result.arguments:
        found = distance_for(argument.parameter.name, "gemm", batches=False)
        if found is not None and argument.reason.startswith("the source passes"):
            passed.setdefault(found.role, set()).add(argument.value)
    for (role, extent), stored in _BY_COLUMNS.items():
        if passed.get(role) != {extent}:
            continue
        if stored and f"transpose_{role}" not in result.computes:
            result.computes[f"transpose_{role}"] = "1"
            result.remarks.append(f"{role.upper()} is stored as {stored}, as its leading dimension says")
        elif not stored:
            batched = any(
                one.value == "batch" or distance_for(one.parameter.name, "gemm", batches=True)
                for one in result.arguments
            )
            for argument in result.arguments:
                if argument.role in ("c", "d"):
                    argument.layout = "BNM" if batched else "NM"
            result.remarks.append("the result is stored by columns, as its leading dimension says")
