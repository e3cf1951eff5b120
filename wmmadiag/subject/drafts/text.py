"""A drafted card as commented TOML."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.model import TODO, CardDraft, DraftArgument


def parsed_card(text: str, source: GivenSource, assumed: tuple[str, ...], entry: str | None = None) -> Card:
    """A card's text as the card of a source, with what the user said.

    Args:
        entry: the kernel that was taken, where the command that repeats the check is to name it.
    """
    path, options = source.path, source.options
    card = parse_card(text, path, shown=f"card derived from {path}")
    said = options if entry is None or "{" in entry else replace(options, entry=entry)
    return replace(
        card,
        assumed=assumed,
        macros={**card.macros, **options.macros},
        include_paths=options.include_paths,
        std=options.std or card.std,
        command=shlex.join(["wmmadiag", "check", str(path), *said.words()]),
    )


def draft_text(draft: CardDraft, source: str, name: str, cases: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """The card's text.

    Args:
        source: path of the source relative to the card.
        cases: their names and symbols.
    """
    operation = OPERATIONS[draft.operation]
    lines = ["format = 1", f"name = {quoted(name)}", f"source = {quoted(source)}"]
    lines += [f'entry = {quoted(draft.entry)}  # {{expression}} in it is replaced: "attn<{{D}}>"', ""]
    if draft.open:
        lines.append("# Still to be filled in (search for TODO):")
        lines += [f"#   {one.what}: {one.why}" for one in draft.open]
        lines.append("")
    lines += [f"# Assumed: {remark}." for remark in draft.remarks]
    lines += [
        f"# {symbol} is an example: nothing tells the {meaning} that the kernel is made for."
        for symbol, meaning in draft.unstated.items()
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
        f"grid = {_shape(draft.grid)}",
        f"block = {_shape(draft.block)}",
        f"shared = {toml_value(draft.shared)}  # dynamic shared memory, bytes",
        "",
        f"[computes]  # {operation.meaning}",
        f"operation = {quoted(draft.operation)}",
    ]
    lines += [f"{key} = {quoted(value)}" for key, value in draft.computes.items()]
    for key, parameter in operation.parameters.items():
        if key in draft.computes:
            continue
        words = " (" + ", ".join(parameter.words) + ")" if parameter.words else ""
        lines.append(f"# {key} = {quoted(str(parameter.default))}  # {parameter.meaning}{words}")
    lines += ["", "# Add the sizes that you care about, odd ones too if the kernel takes them."]
    lines += case_lines(cases)
    return "\n".join(lines) + "\n"


def _argument_lines(argument: DraftArgument, operation: str) -> list[str]:
    parameter = argument.parameter
    stars = ("const " if parameter.const else "") + parameter.c_type + "*" * (parameter.pointer + parameter.indirect)
    lines = ["[[arguments]]", f"name = {quoted(parameter.name)}  # {stars}"]
    if argument.role:
        lines.append(f"role = {quoted(argument.role)}")
    if not parameter.pointer and argument.dtype == TODO:
        lines.append("# A struct has no dtype and value, but its members in order:")
        lines.append('# fields = [{ role = "q", dtype = "f16" }, { dtype = "s32", value = "M" }]')
    lines.append(f"dtype = {quoted(argument.dtype)}")
    if argument.value:
        asked = f"an expression of {', '.join(OPERATIONS[operation].extents)}" if argument.value == TODO else ""
        said = argument.reason or asked
        reason = f"  # {said}" if said else ""
        lines.append(f"value = {quoted(argument.value)}{reason}")
    if parameter.indirect:
        lines.append("pointers = true  # to each matrix one")
    if argument.direction:
        lines.append(f"direction = {quoted(argument.direction)}")
    if argument.size:
        lines.append(f"size = {quoted(argument.size)}  # elements")
    if argument.initial:
        lines.append(f"initial = {quoted(argument.initial)}  # as the source fills it")
    role = OPERATIONS[operation].roles.get(argument.role)
    if argument.layout and role is not None and role.usual:
        lines.append(f"layout = {quoted(argument.layout)}  # the axes that it has in memory, of {', '.join(role.axes)}")
    elif argument.layout:
        lines.append(f"layout = {quoted(argument.layout)}  # order of the axes in memory")
    elif role is not None and role.usual:
        others = ", ".join(f'"{letter}"' for letter in role.axes if letter != role.usual)
        lines.append(f'layout = "{role.usual}"  # the axes that it has in memory; also {others}, or several of them')
    elif role is not None:
        lines.append(f'# layout = "{role.axes}"  # order of the axes in memory; or strides = [...], pad = {{ ... }}')
    if argument.pad:
        lines.append(f"pad = {{ {', '.join(f'{axis} = {extra}' for axis, extra in argument.pad.items())} }}")
    return [*lines, ""]


def _struct_lines(struct: str, fields: list[DraftArgument], operation: str) -> list[str]:
    """A struct passed by value, a table for each member."""
    lines = ["[[arguments]]", f"name = {quoted(struct)}  # a struct: its members in order", ""]
    for one in fields:
        own = _argument_lines(one, operation)
        own[:2] = ["[[arguments.fields]]", own[1].replace(quoted(one.parameter.name), quoted(one.parameter.label), 1)]
        lines += own
    return lines


def case_lines(cases: Sequence[tuple[str, Mapping[str, str]]]) -> list[str]:
    """The `[[cases]]` of a card."""
    lines: list[str] = []
    for name, values in cases:
        lines += [
            "[[cases]]",
            f"name = {quoted(name)}",
            *(f"{key} = {toml_value(one)}" for key, one in values.items()),
        ]
        lines.append("")
    return lines


def quoted(text: str) -> str:
    """A TOML basic string, as a JSON string is one."""
    return json.dumps(text)


def toml_value(text: str) -> str:
    """A number as it is, anything else as a string."""
    return text if re.fullmatch(r"-?\d+", text) else quoted(text)


def toml_list(items: Sequence[str]) -> str:
    """An array of such."""
    return f"[{', '.join(map(toml_value, items))}]"


def _shape(items: Sequence[str]) -> str:
    return toml_value(items[0]) if len(items) == 1 else toml_list(items)


assert TODO == "TODO", "card_files looks for this word"
