"""A drafted card as commented TOML."""

from __future__ import annotations

import json
import re

from wmmadiag.subject.draft import TODO, Draft, DraftArgument
from wmmadiag.subject.expressions import names_in
from wmmadiag.subject.operations import OPERATIONS

# Cases to begin with: small, several heads with different contents, more than one tile. Multiples of 64, because
# many kernels ask for that; the comment in the card invites other sizes.
_CASES: dict[str, tuple[dict[str, int], ...]] = {
    "attention": ({"B": 1, "H": 1, "S": 64, "D": 64}, {"B": 2, "H": 2, "S": 128, "D": 64}),
    "qkt": ({"B": 1, "H": 1, "S": 64, "D": 64}, {"B": 2, "H": 2, "S": 128, "D": 64}),
    "pv": ({"B": 1, "H": 1, "S": 64, "D": 64}, {"B": 2, "H": 2, "S": 128, "D": 64}),
    "softmax": ({"M": 64, "N": 64}, {"M": 64, "N": 256}),
    "gemm": ({"M": 64, "N": 64, "K": 64}, {"M": 128, "N": 192, "K": 64}),
}
_NAMES = ("small", "tiles")


def draft_text(draft: Draft, source: str, name: str, symbols: dict[str, str] | None = None) -> str:
    """The card's text.

    Args:
        source: path of the source relative to the card.
        symbols: the user's own values, which replace those of the drafted cases.
    """
    operation = OPERATIONS[draft.operation]
    lines = ["format = 1", f"name = {_quoted(name)}", f"source = {_quoted(source)}"]
    lines += [f"entry = {_quoted(draft.entry)}  # {{expression}} in it is replaced: \"attn<{{D}}>\"", ""]
    if draft.open:
        lines.append("# Still to be filled in (search for TODO):")
        lines += [f"#   {what}: {why}" for what, why in draft.open]
        lines.append("")
    lines += [f"# Assumed: {remark}." for remark in draft.remarks]
    lines += [
        "# [variants.scalar]",
        "# macros = { USE_WMMA = 0 }",
        "# [variants.wmma]",
        "# macros = { USE_WMMA = 1 }",
        "",
        "# Arguments in the kernel's order. Roles and values are suggestions: confirm them.",
    ]
    for argument in draft.arguments:
        lines += _argument_lines(argument, draft.operation)
    lines += [
        "[launch]  # expressions over the symbols of a case, and macros",
        f"grid = {_list(draft.grid)}",
        f"block = {_list(draft.block)}",
        f"shared = {_value(draft.shared)}  # dynamic shared memory, bytes",
        "",
        f"[computes]  # {operation.meaning}",
        f"operation = {_quoted(draft.operation)}",
    ]
    for key, parameter in operation.parameters.items():
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
    lines.append(f"dtype = {_quoted(argument.dtype)}")
    if argument.value:
        reason = f"  # {argument.reason}" if argument.reason else ""
        lines.append(f"value = {_quoted(argument.value)}{reason}")
    if argument.size:
        lines.append(f"size = {_quoted(argument.size)}  # elements")
    if argument.initial:
        lines.append(f"initial = {_quoted(argument.initial)}  # as the source fills it")
    role = OPERATIONS[operation].roles.get(argument.role)
    if role is not None:
        lines.append(f'# layout = "{role.axes}"  # order of the axes in memory; or strides = [...], pad = {{ ... }}')
    return [*lines, ""]


def _cases(draft: Draft, symbols: dict[str, str]) -> list[str]:
    lines: list[str] = []
    used = _used(draft)
    written: list[list[str]] = []
    for name, table in zip(_NAMES, _CASES[draft.operation], strict=True):
        values: dict[str, str] = {key: str(value) for key, value in table.items()}
        for symbol in ("B", "H"):
            if symbol in values and symbol not in used:
                values[symbol] = "1"  # nothing in the launch speaks of it: the kernel takes one
        if "causal" in used and "causal" not in symbols:
            values["causal"] = "0"
        values.update(draft.fixed)
        values.update(symbols)
        body = [f"{key} = {_value(value)}" for key, value in values.items()]
        if body in written:
            continue
        written.append(body)
        lines += ["[[cases]]", f"name = {_quoted(name)}", *body, ""]
    return lines


def _used(draft: Draft) -> set[str]:
    texts = [*draft.grid, *draft.block, draft.shared, *(argument.value for argument in draft.arguments)]
    return set().union(*(names_in(text) for text in texts if text))


def _quoted(text: str) -> str:
    return json.dumps(text)  # a JSON string is a TOML basic string


def _value(text: str) -> str:
    return text if re.fullmatch(r"-?\d+", text) else _quoted(text)


def _list(items: list[str]) -> str:
    return "[" + ", ".join(_value(item) for item in items) + "]" if len(items) != 1 else _value(items[0])


assert TODO == "TODO", "card_file.py looks for this word"
