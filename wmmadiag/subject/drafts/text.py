"""A drafted card as commented TOML."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Iterator
from itertools import groupby

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.gemm import only_size
from wmmadiag.subject.drafts.model import TODO, Draft, DraftArgument
from wmmadiag.subject.expressions import ExpressionError, evaluate, names_in

_NAMES = ("small", "tiles")
_SQUARE = "square"  # where the source itself launches nothing else
_MASKED = "causal"  # where a flag says so; as many rows as columns, so that both corners of the mask are one
_LARGEST_TILE = 512


def draft_text(draft: Draft, source: str, name: str, symbols: dict[str, str] | None = None) -> str:
    """The card's text.

    Args:
        source: path of the source relative to the card.
        symbols: the user's own values, which replace those of the drafted cases.
    """
    operation = OPERATIONS[draft.operation]
    lines = ["format = 1", f"name = {_quoted(name)}", f"source = {_quoted(source)}"]
    lines += [f'entry = {_quoted(draft.entry)}  # {{expression}} in it is replaced: "attn<{{D}}>"', ""]
    if draft.open:
        lines.append("# Still to be filled in (search for TODO):")
        lines += [f"#   {what}: {why}" for what, why in draft.open]
        lines.append("")
    lines += [f"# Assumed: {remark}." for remark in draft.remarks]
    lines += [
        f"# {symbol} is an example: nothing tells the {meaning} that the kernel is made for."
        for symbol, meaning in draft.untold.items()
    ]
    lines += [
        "# [variants.scalar]",
        "# macros = { USE_WMMA = 0 }",
        "# [variants.wmma]",
        "# macros = { USE_WMMA = 1 }",
        "",
        "# Arguments in the kernel's order. Roles and values are suggestions: confirm them.",
    ]
    for struct, run in groupby(draft.arguments, lambda one: one.parameter.struct):
        if struct:
            lines += _struct_lines(struct, [*run], draft.operation)
            continue
        for argument in run:
            lines += _argument_lines(argument, draft.operation)
    lines += [
        "[launch]  # expressions over the symbols of a case, and macros",
        f"grid = {_list(draft.grid)}",
        f"block = {_list(draft.block)}",
        f"shared = {toml_value(draft.shared)}  # dynamic shared memory, bytes",
        "",
        f"[computes]  # {operation.meaning}",
        f"operation = {_quoted(draft.operation)}",
    ]
    lines += [f"{key} = {_quoted(value)}" for key, value in draft.computes.items()]
    for key, parameter in operation.parameters.items():
        if key in draft.computes:
            continue
        words = " (" + ", ".join(parameter.words) + ")" if parameter.words else ""
        lines.append(f"# {key} = {_quoted(str(parameter.default))}  # {parameter.meaning}{words}")
    lines += ["", "# Add the sizes that you care about, odd ones too if the kernel takes them."]
    lines += _cases(draft, symbols or {})
    return "\n".join(lines) + "\n"


def _argument_lines(argument: DraftArgument, operation: str) -> list[str]:
    parameter = argument.parameter
    stars = ("const " if parameter.const else "") + parameter.c_type + ("*" if parameter.pointer else "")
    lines = ["[[arguments]]", f"name = {_quoted(parameter.name)}  # {stars}"]
    if argument.role:
        lines.append(f"role = {_quoted(argument.role)}")
    if not parameter.pointer and argument.dtype == TODO:
        lines.append("# A struct has no dtype and value, but its members in order:")
        lines.append('# fields = [{ role = "q", dtype = "f16" }, { dtype = "s32", value = "M" }]')
    lines.append(f"dtype = {_quoted(argument.dtype)}")
    if argument.value:
        reason = f"  # {argument.reason}" if argument.reason else ""
        lines.append(f"value = {_quoted(argument.value)}{reason}")
    if argument.direction:
        lines.append(f"direction = {_quoted(argument.direction)}")
    if argument.size:
        lines.append(f"size = {_quoted(argument.size)}  # elements")
    if argument.initial:
        lines.append(f"initial = {_quoted(argument.initial)}  # as the source fills it")
    role = OPERATIONS[operation].roles.get(argument.role)
    if argument.layout and role is not None and role.usual:
        lines.append(
            f"layout = {_quoted(argument.layout)}  # the axes that it has in memory, of {', '.join(role.axes)}"
        )
    elif argument.layout:
        lines.append(f"layout = {_quoted(argument.layout)}  # order of the axes in memory")
    elif role is not None and role.usual:
        others = ", ".join(f'"{letter}"' for letter in role.axes if letter != role.usual)
        lines.append(f'layout = "{role.usual}"  # the axes that it has in memory; also {others}, or several of them')
    elif role is not None:
        lines.append(f'# layout = "{role.axes}"  # order of the axes in memory; or strides = [...], pad = {{ ... }}')
    return [*lines, ""]


def _struct_lines(struct: str, fields: list[DraftArgument], operation: str) -> list[str]:
    """A struct passed by value, a table for each member."""
    lines = ["[[arguments]]", f"name = {_quoted(struct)}  # a struct: its members in order", ""]
    for one in fields:
        own = _argument_lines(one, operation)
        own[:2] = ["[[arguments.fields]]", own[1].replace(_quoted(one.parameter.name), _quoted(one.parameter.label), 1)]
        lines += own
    return lines


def _cases(draft: Draft, symbols: dict[str, str]) -> list[str]:
    lines: list[str] = []
    used = _used(draft)
    written: list[list[str]] = []
    tables = [*zip(_NAMES, OPERATIONS[draft.operation].cases, strict=True)]
    tables += [("tail", tables[-1][1])] if draft.tail else []
    tables[1:1] = [(_SQUARE, tables[1][1])] if draft.square else []
    masked = "causal" in used and not {"causal"} & {*draft.fixed, *symbols}
    tables += [(_MASKED, tables[1][1])] if masked else []
    for name, table in tables:
        values: dict[str, str] = {key: str(value) for key, value in table.items()}
        for symbol in ("B", "H"):
            if symbol in values and symbol not in used:
                values[symbol] = "1"  # nothing in the launch speaks of it: the kernel takes one
        if "batch" in values and ("batch" not in used or name == _SQUARE):
            del values["batch"]
        if name == _SQUARE:
            values.update(M=values["N"], K=values["N"])
        _fill_blocks(values, draft.grid, name == _NAMES[0])
        if name == _SQUARE:
            values["M"] = values["N"] = str(max(int(values["M"]), int(values["N"])))
        if name not in (_NAMES[0], _MASKED) and "S" in values:
            # An accessor's sizes come with it, whether or not the kernel looks at them.
            _spread(values, {one.value for one in draft.arguments if not one.parameter.name.endswith(")")})
        if name == "tail" and not _cut(values, draft.grid):
            continue
        for symbol, parameter in OPERATIONS[draft.operation].parameters.items():
            if draft.computes.get(symbol) == symbol and parameter.drafted:
                values[symbol] = parameter.drafted[0 if name == _NAMES[0] else 1]
        if "causal" in used and "causal" not in symbols:
            values["causal"] = str(int(name == _MASKED))
        values.update(draft.fixed)
        values.update(symbols)
        if draft.operation == "gemm" and (size := only_size(draft)):
            values.update({name: values[size] for name in "MNK" if name not in symbols})
        body = [f"{key} = {toml_value(value)}" for key, value in values.items()]
        if body in written:
            continue
        written.append(body)
        lines += ["[[cases]]", f"name = {_quoted(name)}", *body, ""]
    return lines


def _spread(values: dict[str, str], taken: set[str]) -> None:
    """Give extents that a kernel takes as numbers of their own different values: one in the other's place shows."""
    if "Hkv" in taken:
        values.update(H="4", Hkv="2")
    if {"Sq", "Skv"} <= taken:
        values["Skv"] = str(2 * int(values["S"]))


def _cut(values: dict[str, str], grid: list[str]) -> bool:
    """Make the sequence one tile and 16 rows long, where the grid rounds it up to tiles; whether it does."""
    for extent in grid:
        for symbol, tile in _quotients(extent):
            if symbol in ("S", "Sq") and 16 < tile <= _LARGEST_TILE and "ceil_div" in extent:
                values["S"] = str(tile + 16)
                if "Skv" in values:
                    values["Skv"] = str(2 * tile + 16)
                return True
    return False


def _fill_blocks(values: dict[str, str], grid: list[str], smallest: bool) -> None:
    """Make extents multiples of what the grid divides them by: many kernels take nothing else."""
    for symbol, tile in (pair for extent in grid for pair in _quotients(extent)):
        symbol = "S" if symbol in ("Sq", "Skv") else symbol
        if symbol in values and 1 < tile <= _LARGEST_TILE:
            blocks = -(-int(values[symbol]) // tile)
            values[symbol] = str(tile * (blocks if smallest else max(blocks, 2)))


def _quotients(expression: str) -> Iterator[tuple[str, int]]:
    """(N, 64) for each `N // 64` and `ceil_div(N, 64)`; the divisor may be any expression of plain numbers."""
    nothing: dict[str, int] = {}
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Div)):
            left, right = node.left, node.right
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "ceil_div" and len(node.args) == 2:
            left, right = node.args
        else:
            continue
        if isinstance(left, ast.Name):
            with contextlib.suppress(ExpressionError, KeyError):
                value = evaluate(ast.unparse(right), nothing.__getitem__)
                if isinstance(value, int):
                    yield left.id, value


def _used(draft: Draft) -> set[str]:
    texts = [*draft.grid, *draft.block, draft.shared, *(argument.value for argument in draft.arguments)]
    texts += re.findall(r"\{([^{}]*)\}", draft.entry)
    return set().union(*(names_in(text) for text in texts if text))


def _quoted(text: str) -> str:
    return json.dumps(text)  # a JSON string is a TOML basic string


def toml_value(text: str) -> str:
    """A number as it is, anything else as a string."""
    return text if re.fullmatch(r"-?\d+", text) else _quoted(text)


def _list(items: list[str]) -> str:
    return "[" + ", ".join(toml_value(item) for item in items) + "]" if len(items) != 1 else toml_value(items[0])


assert TODO == "TODO", "card_files looks for this word"
