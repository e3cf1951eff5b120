"""A drafted card for what no built-in operation describes: the reference is a Python function of the user's."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from wmmadiag.subject.drafts.c_expressions import CannotTranslate, HostScope, dimensions, translate
from wmmadiag.subject.drafts.guess import Parameter
from wmmadiag.subject.drafts.host_scope import Launched
from wmmadiag.subject.drafts.source_facts import constants, dimension_members, helpers
from wmmadiag.subject.drafts.text import toml_value
from wmmadiag.subject.dtypes import element_type

# Unit roundoff, IEEE 754 and bfloat16; sums of narrower products err more than an f32 output's own rounding.
_ROUNDING = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-11, "f64": 2.0**-40}
_HEAD = """\
# The reference is a Python function: it gets two dicts, float64 copies of the inputs by role and the case's symbols,
# and returns the output in float64, or a dict of outputs by role. In a file reference.py beside this card:
#
#   import numpy as np
#
#   def reference(inputs, symbols):
#       return ...  # {outputs}
"""


def python_card(
    entry: str, parameters: Sequence[Parameter], launches: Sequence[Launched], text: str, source: str, name: str
) -> str:
    """The card's text: shapes say TODO; numbers are symbols of their own names.

    Args:
        entry: the kernel's name or name expression.
        parameters: of the kernel, in order.
        launches: of this kernel in the source's host code, the best one first.
        text: the source's.
        source: its path relative to the card.
    """
    launch = launches[0] if launches else None
    symbols = {p.name: p.name for p in parameters if not p.pointer and not p.value and _is_integer(p)}
    scope = _scope(launch, parameters, symbols, text)
    if launch is not None and launch.template_arguments and "<" not in entry:
        entry += f"<{', '.join(_translated(argument.text, scope) for argument in launch.template_arguments)}>"
    outputs = [p.name for p in parameters if p.pointer and not p.const]
    lines = ["format = 1", f"name = {_quoted(name)}", f"source = {_quoted(source)}", f"entry = {_quoted(entry)}", ""]
    lines += _HEAD.format(outputs=" or ".join(f'the array "{one}"' for one in outputs)).splitlines()
    lines += ["", "# Arguments in the kernel's order."]
    for struct, members in groupby(parameters, lambda one: one.struct):
        if struct:
            lines += ["[[arguments]]", f"name = {_quoted(struct)}  # a struct: its members in order", ""]
        for one in members:
            own = _argument(one)
            lines += ["[[arguments.fields]]", *own[1:]] if struct else own
    lines.append("[launch]  # expressions over the symbols of a case")
    given_by_key = {} if launch is None else {"grid": launch.grid, "block": launch.block}
    for key in ("grid", "block"):
        given = given_by_key.get(key)
        found = ["TODO"]
        if given is not None:
            with contextlib.suppress(CannotTranslate):
                found = dimensions(given.text, scope)
        while len(found) > 1 and found[-1] == "1":
            found.pop()
        lines.append(f"{key} = [{', '.join(toml_value(one) for one in found)}]")
    shared = "0" if launch is None or launch.shared is None else _translated(launch.shared.text, scope, "TODO")
    lines += [f"shared = {toml_value(shared)}  # dynamic shared memory, bytes", ""]
    lines += ["[computes]", 'operation = "python"', 'python = "reference.py:reference"', ""]
    lines += ["# A guess, four roundings of the output's type: or let the function return (output, bound) instead."]
    lines += ["[tolerance]  # |observed - expected| <= atol + rtol * |expected|"]
    rounding = max((_ROUNDING.get(p.dtype or "", 0.0) for p in parameters if p.name in outputs), default=0.0) or 2**-11
    lines += [f"atol = {4 * rounding:.2g}", f"rtol = {4 * rounding:.2g}", "", "[[cases]]", 'name = "small"']
    lines += [f"{symbol} = 64" for symbol in symbols]
    return "\n".join(lines) + "\n"


# Lengths, tables of pages and offsets: drawn numbers would lead out of every array.
_VALUES = ('# values = [0, "M", "2*M"]  # of its elements, or an expression of the index i: "16*i"',)


def _argument(parameter: Parameter) -> list[str]:
    element = element_type(parameter.dtype or "")
    stars = ("const " if parameter.const else "") + parameter.c_type + ("*" if parameter.pointer else "")
    lines = ["[[arguments]]", f"name = {_quoted(parameter.name)}  # {stars}"]
    dtype = element.name if element is not None else "TODO"
    if not parameter.pointer and element is None:
        return [
            *lines,
            '# its members in order; a pointer: { role = "x", dtype = "f16", shape = [...], direction = "in" }',
            'fields = [{ dtype = "s32", value = "TODO" }]',
            "",
        ]
    if not parameter.pointer:
        value = parameter.value or (parameter.name if _is_integer(parameter) else "1")
        return [*lines, f"dtype = {_quoted(dtype)}", f"value = {toml_value(value)}", ""]
    direction = "in" if parameter.const else "out"
    return [
        *lines,
        f"role = {_quoted(parameter.name)}",
        f"dtype = {_quoted(dtype)}",
        f'direction = "{direction}"  # in, out, inout or workspace',
        'shape = ["TODO"]  # such as ["M", "N"]',
        *(_VALUES if direction == "in" and element is not None and not element.is_float else ()),
        "",
    ]


def _is_integer(parameter: Parameter) -> bool:
    element = element_type(parameter.dtype or "")
    return element is not None and not element.is_float


def _scope(
    launch: Launched | None, parameters: Sequence[Parameter], symbols: Mapping[str, str], text: str
) -> HostScope:
    """What host code passes for a number means that number."""
    known = dict(symbols)
    if launch is None:
        return HostScope(known, constants(text), helpers(text))
    local = {name: value.text for name, value in launch.locals}
    for parameter, argument in zip(parameters, launch.arguments, strict=False):
        if parameter.name in symbols and re.fullmatch(r"[A-Za-z_]\w*", argument.text):
            known.setdefault(argument.text, parameter.name)
    local = {**dimension_members(local, text), **local}
    return HostScope(known, {**constants(text), **local}, helpers(text))


def _translated(text: str, scope: HostScope, otherwise: str = "") -> str:
    try:
        return translate(text, scope)
    except CannotTranslate:
        return otherwise or text


def _quoted(text: str) -> str:
    return json.dumps(text)
