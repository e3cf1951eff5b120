"""Reading `[[arguments]]`: scalars, tensors and packed storage."""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.errors import did_you_mean
from wmmadiag.numerics.element_types import ALIASES, TYPES, ElementType, element_type
from wmmadiag.ops import OPERATIONS, Operation
from wmmadiag.subject import card_keys
from wmmadiag.subject.card import Argument, Expression, View
from wmmadiag.subject.card_files import stored
from wmmadiag.subject.card_files.table import Table
from wmmadiag.subject.distributions import DISTRIBUTIONS
from wmmadiag.subject.packed import packed_views

MOST_BYTES = 64 << 20
"""Of the values of one argument that a card holds as bytes."""
_DIRECTIONS = ("in", "out", "inout", "workspace")


def read_arguments(card: Table, operation: str) -> tuple[Argument, ...]:
    """All arguments in the kernel's order.

    Raises:
        ConfigurationError: at the offending key; a role that the operation needs and no argument has, too.
    """
    arguments: list[Argument] = []
    for table in card.tables("arguments"):
        found = _struct(table, operation) if "fields" in table else (_argument(table, operation),)
        for argument in found:
            if any(other.name == argument.name for other in arguments):
                raise table.error("name", f"there are two arguments named '{argument.name}'")
            arguments.append(argument)
    if len(arguments) > 256:
        raise card.error("arguments", "more than 256 arguments")
    _check_roles(card, operation, arguments)
    return tuple(arguments)


def changed_arguments(card: Table, changes: Table, operation: str) -> tuple[Argument, ...]:
    """All arguments, with the keys of single ones as a variant has them.

    Args:
        changes: the variant's table: argument's name → keys in place of the card's.

    Raises:
        ConfigurationError: as `read_arguments`; no argument has such a name.
    """
    tables = card.tables("arguments")
    names = {_name(table): index for index, table in enumerate(tables)}
    merged = [dict(table.content) for table in tables]
    for name in changes.content:
        if name not in names:
            raise changes.error(name, f"the card has no argument '{name}'", did_you_mean(name, names))
        merged[names[name]] |= changes.table(name).content
    return read_arguments(Table({**card.content, "arguments": merged}, card.places), operation)


def _dtype(table: Table) -> ElementType:
    table.require("dtype", 'dtype = "f16"')
    name = table.string("dtype")
    element = element_type(name)
    if element is None:
        hint = "write one of " + ", ".join(TYPES) if "TODO" in name else did_you_mean(name, [*TYPES, *ALIASES])
        raise table.error("dtype", f"unknown element type '{name[:60]}'", hint)
    return element


def _name(table: Table) -> str:
    index = table.path[-1]
    return table.string("name") or table.string("role") or f"argument{index}"


def _argument(table: Table, operation: str) -> Argument:
    return _scalar(table) if "value" in table else _array(table, operation)


def _scalar(table: Table) -> Argument:
    table.check_keys(card_keys.SCALAR)
    if "TODO" in str(table.content["value"]):
        raise table.error("value", f"the value of '{_name(table)}' is still to be filled in", "replace the TODO")
    value = table.expression("value")
    return Argument(_name(table), _dtype(table), "in", table.place(), value=value)


def _struct(table: Table, operation: str) -> tuple[Argument, ...]:
    """The fields of a struct passed by value, laid out as C++ does: numbers, and pointers as arguments have them.

    `fields = [{ name = "q_ptr", role = "q", dtype = "bf16" }, { dtype = "s32", value = "M" }, …]`
    """
    table.check_keys(card_keys.STRUCT)
    struct = _name(table)
    fields = []
    for number, field in enumerate(table.tables("fields")):
        if not any(key in field for key in ("value", "role", "contains")):
            field.require("value", 'value = "M", or of a pointer role = "a"')
        name = field.string("name") or field.string("role") or str(number)
        fields.append(replace(_argument(field, operation), name=f"{struct}.{name}", struct=struct))
    if not fields:
        raise table.error("fields", "a struct without fields", 'fields = [{ dtype = "s32", value = "M" }]')
    return tuple(fields)


def _array(table: Table, operation: str) -> Argument:
    table.check_keys(card_keys.ARRAY)
    name = _name(table)
    if "role" not in table and "contains" not in table:
        table.require("role", f'role = "{_example_role(operation)}", or value = "S" if it is a scalar')
    role = table.string("role")
    views = tuple(_view(inner, name) for inner in table.tables("contains"))
    if views and role:
        raise table.error("role", "'role' and 'contains' exclude each other")
    if role in OPERATIONS[operation].packed:
        views = _packed_views(table, role, OPERATIONS[operation])
    elif role and role != "workspace":
        views = (_view(table, name, check=False),)
    for view in views:
        _check_role(table, view.role, operation)
    _check_read_and_written(table, views, operation)
    workspace = role == "workspace" or table.string("direction") == "workspace"
    direction = table.word("direction", _DIRECTIONS, _direction(operation, role, views))
    if workspace and not ("size" in table or "shape" in table):
        table.require("size", 'size = "B*H*S*D"  # elements')
    return Argument(
        name=name,
        element=_dtype(table),
        direction=direction,
        place=table.place(),
        views=() if workspace else views,
        size=_size(table, workspace),
        inputs=table.word("inputs", tuple(DISTRIBUTIONS), ""),
        values=_values(table, views),
        initial=_initial(table, direction),
        padding=table.word("padding", ("poison", "zero"), "poison"),
        packed=role if role in OPERATIONS[operation].packed else "",
        packing=table.string("layout") if role in OPERATIONS[operation].packed else "",
        pointers=_pointers(table, views),
    )


def _values(table: Table, views: tuple[View, ...]) -> Expression | tuple[Expression, ...] | bytes | None:
    if "values" not in table:
        return None
    if len(views) != 1:
        raise table.error("values", "'values' are for an argument that is one tensor", "give it a role and a shape")
    if "inputs" in table:
        raise table.error("values", "'inputs' and 'values' exclude each other", "keep one of them")
    given = table.content["values"]
    if isinstance(given, str) and given.startswith(stored.PREFIX):
        try:
            return stored.bytes_of(given, MOST_BYTES)
        except ValueError as error:
            raise table.error("values", f"these are no stored values: {error}") from error
    return table.expressions("values") if isinstance(given, list) else table.expression("values")


def _initial(table: Table, direction: str) -> str:
    if "initial" not in table:
        return "poison"
    if direction in ("in", "inout"):
        raise table.error(
            "initial",
            f"an argument of direction '{direction}' begins with its inputs",
            "give direction = \"out\" with 'initial', or 'values' with what it begins with",
        )
    return str(table.expression("initial"))


def _pointers(table: Table, views: tuple[View, ...]) -> bool:
    if not table.flag("pointers"):
        return False
    if len(views) != 1:
        raise table.error("pointers", "'pointers' are for an argument that is one tensor", "give it a role")
    return True


def _size(table: Table, workspace: bool) -> str | int | float | None:
    if "size" in table:
        return table.expression("size")
    if workspace:
        return "*".join(f"({extent})" for extent in table.expressions("shape")) or "1"
    return None


def _example_role(operation: str) -> str:
    return next(iter(OPERATIONS[operation].roles), "x")


def _direction(operation: str, role: str, views: tuple[View, ...]) -> str:
    if role == "workspace":
        return "workspace"
    roles = OPERATIONS[operation].roles
    if any(view.role in roles and roles[view.role].output for view in views):
        return "out"
    return "out" if not roles and role in ("out", "output") else "in"


def _check_read_and_written(table: Table, views: tuple[View, ...], operation: str) -> None:
    """Storage that holds what is read beside what is written has no direction of its own.

    Raises:
        ConfigurationError: the card says none.
    """
    roles = OPERATIONS[operation].roles
    written = [view.role for view in views if view.role in roles and roles[view.role].output]
    read = [view.role for view in views if view.role not in written]
    if read and written and "direction" not in table:
        raise table.error(
            "contains", f"'{_name(table)}' holds what is read ('{read[0]}') and what is written ('{written[0]}')",
            f'add direction = "inout"; where both are the same elements: role = "{read[0]}", direction = "inout"',
        )  # fmt: skip


def _check_role(table: Table, role: str, operation: str) -> None:
    if "TODO" in role:
        raise table.error("role", f"the role of '{_name(table)}' is still to be filled in", "replace the TODO")
    roles = OPERATIONS[operation].roles
    if roles and role not in roles:
        known = [*roles, *OPERATIONS[operation].packed, "workspace"]
        raise table.error("role", f"'{operation}' has no role '{role[:60]}'", did_you_mean(role, known))


def _view(table: Table, argument: str, check: bool = True) -> View:
    if check:
        table.check_keys(card_keys.VIEW)
        table.require("role", 'role = "q"')
    layout = table.string("layout")
    if "TODO" in layout:
        raise table.error("layout", f"the layout of '{argument}' is still to be filled in", "replace the TODO")
    if layout and "strides" in table:
        raise table.error("layout", f"'{argument}' has both a layout and strides", "keep one of them")
    if layout and not layout.isalnum():
        hint = 'a layout names the axes in memory order: "BSHD"'
        raise table.error("layout", f"'{layout[:40]}' is not a layout", hint)
    if len(set(layout)) != len(layout):
        raise table.error("layout", f"the layout '{layout[:40]}' names an axis twice")
    shape = table.expressions("shape")
    if len(shape) > 8:
        raise table.error("shape", "more than 8 dimensions")
    strides = table.expressions("strides")
    if shape and strides and len(shape) != len(strides):
        raise table.error("strides", f"{len(strides)} strides for {len(shape)} dimensions")
    return View(
        role=table.string("role"),
        place=table.place(),
        shape=shape,
        layout=layout,
        strides=strides,
        pad=table.expression_table("pad"),
        offset=table.expression("offset") if "offset" in table else 0,
    )


def _packed_views(table: Table, role: str, operation: Operation) -> tuple[View, ...]:
    """Views for role = "qkv" with a layout such as "BS3HD": the digit is the axis that picks q, k or v."""
    packed = operation.packed[role]
    layout = table.string("layout") or packed.layout
    first = operation.roles[packed.parts[0]]
    digit = str(len(packed.parts))
    if sorted(layout) != sorted(first.axes + digit):
        raise table.error(
            "layout",
            f"a packed {role} cannot have the layout '{layout[:40]}'",
            f'write {", ".join(first.axes)} and {digit} in memory order, such as "{packed.layout}", or use `contains`',
        )
    for key in ("shape", "strides", "pad", "offset"):
        if key in table:
            raise table.error(key, f"a packed {role} takes no '{key}'", "use `contains` with one entry per tensor")
    return packed_views(operation, role, layout, table.place("role"))


def _check_roles(card: Table, operation: str, arguments: list[Argument]) -> None:
    roles = [view.role for argument in arguments for view in argument.views]
    for role in roles:
        if roles.count(role) > 1 and OPERATIONS[operation].roles:
            raise card.error("arguments", f"more than one argument has the role '{role}'")
    outputs = [a for a in arguments if a.direction in ("out", "inout")]
    if not outputs:
        raise card.error("arguments", "no argument is an output", 'give one direction = "out"')
    for name, expected in OPERATIONS[operation].roles.items():
        replaced = expected.updates and any(expected.updates in [v.role for v in a.views] for a in outputs)
        if expected.required and name not in roles and not replaced:
            raise card.error(
                "arguments", f"'{operation}' needs an argument with the role '{name}'", f'[[arguments]] role = "{name}"'
            )
