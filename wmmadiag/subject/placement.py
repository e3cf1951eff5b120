"""From a card's shape, layout, padding and strides to positions in storage."""

from __future__ import annotations

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops import OPERATIONS, Role
from wmmadiag.ops.expressions import SymbolScope
from wmmadiag.subject.card import Argument, Card, Expression, View
from wmmadiag.subject.storage import Placement

_MAX_ELEMENTS = 1 << 34


def place_view(card: Card, argument: Argument, view: View, scope: SymbolScope) -> Placement:
    """Where a logical tensor lies in its argument's storage.

    Raises:
        ConfigurationError: a wrong rank, an unknown axis, a negative extent, overlapping outputs, or too large.
    """
    operation = OPERATIONS[card.computes.operation]
    role = operation.roles.get(view.role)
    optional = bool(operation.optional) and _is_one(operation.optional, view, scope)
    axes, shape_expressions = _axes_and_shape(argument, view, role, operation.optional if optional else "")
    what = f"the shape of '{argument.name}'"
    shape = tuple(
        scope.integer(extent, place=view.place, what=f"{what}[{axis}]", minimum=0)
        for axis, extent in enumerate(shape_expressions)
    )
    strides = _strides(argument, view, axes, shape, scope, role)
    offset = scope.integer(view.offset, place=view.place, what=f"the offset of '{view.role}'", minimum=0)
    placement = Placement(shape, strides, offset)
    if placement.end > _MAX_ELEMENTS:
        raise view.error(f"'{argument.name}' has {min(placement.end, 10**300):.3g} elements", "use a smaller shape")
    if argument.direction in ("out", "inout") and placement.overlaps_itself():
        raise view.error(
            f"the strides {list(strides)} of the output '{argument.name}' with shape {list(shape)} overlap",
            "give strides by which no two elements share a place",
        )
    return placement


def _axes_and_shape(
    argument: Argument, view: View, role: Role | None, absent: str
) -> tuple[str, tuple[Expression, ...]]:
    """Axis letters in logical order ("" if the role has none) and the extents' expressions.

    `absent`: the symbol of a leading axis that the usual shape lacks, since there is one matrix; "" for none.
    """
    if role is None:
        if not view.shape:
            raise view.error(f"the argument '{argument.name}' needs a shape", 'shape = ["M", "N"]')
        if view.layout:
            raise view.error(f"a layout needs named axes, which '{argument.name}' has not", "use strides")
        return "", view.shape
    if view.shape:
        rank = len(view.shape)
        if not (1 if role.usual else min(2, len(role.axes) - 1)) <= rank <= len(role.axes):
            raise view.error(
                f"'{argument.name}' has {rank} dimensions, but the role '{view.role}' has {len(role.axes)}: "
                f"{', '.join(role.axes)}, of which leading ones may be left out",
                "give the shape these axes",
            )
        axes = role.axes[len(role.axes) - rank :]
        if view.layout and sorted(view.layout) != sorted(axes):
            raise _unknown_layout(view, axes)
        return axes, view.shape
    if role.usual:
        named = _named_axes(view, role)
        return role.axes, tuple(e if axis in named else 1 for axis, e in zip(role.axes, role.shape, strict=True))
    if view.layout and not view.strides:
        if not set(view.layout) <= set(role.axes) or set(role.axes[-2:]) - set(view.layout):
            raise _unknown_layout(view, role.axes)
        named = "".join(axis for axis in role.axes if axis in view.layout)
        return _without(absent, named, tuple(role.shape[role.axes.index(axis)] for axis in named))
    axes, shape = role.axes, role.shape
    if view.strides and len(view.strides) < len(axes):
        return axes[-len(view.strides) :], shape[-len(view.strides) :]
    return _without(absent, axes, shape)


def _is_one(symbol: str, view: View, scope: SymbolScope) -> bool:
    return scope.number(symbol, place=view.place, what=symbol) == 1


def _without(absent: str, axes: str, shape: tuple[Expression, ...]) -> tuple[str, tuple[Expression, ...]]:
    """A leading axis of extent 1, which a card may name or not, is left out of the usual shape."""
    return (axes[1:], shape[1:]) if absent and shape[0] == absent else (axes, shape)


def _named_axes(view: View, role: Role) -> str:
    """Letters of the axes that a spread role has in memory: elements along the others are the same."""
    if not set(view.layout) <= set(role.axes):
        raise _unknown_layout(view, role.axes)
    return view.layout or (role.axes if len(view.strides) == len(role.axes) else role.usual)


def _unknown_layout(view: View, axes: str) -> ConfigurationError:
    return view.error(
        f"the layout '{view.layout}' does not fit the axes {', '.join(axes)} of '{view.role}'",
        f'a layout names these letters in memory order, for example "{axes}"',
    )


def _strides(
    argument: Argument, view: View, axes: str, shape: tuple[int, ...], scope: SymbolScope, role: Role | None
) -> tuple[int, ...]:
    if view.strides:
        return _given_strides(argument, view, axes, shape, scope, role)
    letters = axes or "".join(str(axis) for axis in range(len(shape)))
    pad = {}
    for name, extra in view.pad.items():
        axis = letters[int(name)] if name.isdecimal() and int(name) < len(letters) and name not in letters else name
        if axis not in letters or len(axis) != 1:
            raise view.error(
                f"the padding of '{argument.name}' names an unknown axis '{name[:40]}'",
                "axes here: " + ", ".join(letters),
            )
        pad[axis] = scope.integer(extra, place=view.place, what=f"the padding of '{argument.name}'", minimum=0)
    strides: dict[str, int] = {}
    step = 1
    for letter in reversed([one for one in view.layout if one in letters] or letters):
        strides[letter] = step
        step *= shape[letters.index(letter)] + pad.get(letter, 0)
    return tuple(strides.get(letter, 0) for letter in letters)  # 0: a spread role's axis, of extent 1


def _given_strides(
    argument: Argument, view: View, axes: str, shape: tuple[int, ...], scope: SymbolScope, role: Role | None
) -> tuple[int, ...]:
    """The strides that a card states, in the order of the axes; 0 for those of a spread role that it has not."""
    named, strides = axes, view.strides
    if role is not None and not view.shape:
        if role.usual:
            named = _named_axes(view, role)
        elif len(strides) == len(role.axes) == len(axes) + 1:
            strides = strides[1:]  # the first is that of the batch, which is one matrix
    if len(strides) != (len(named) or len(shape)):
        raise view.error(
            f"'{argument.name}' has {len(strides)} strides for {len(named) or len(shape)} dimensions",
            "give one stride for each dimension",
        )
    what = f"the stride of '{argument.name}'"
    given = [scope.integer(one, place=view.place, what=what, minimum=0) for one in strides]
    return tuple(given) if named == axes else tuple(given[named.index(a)] if a in named else 0 for a in axes)
