"""What docs/cards.md says of an operation's tensors is what cards accept: axes, strides, layouts, defaults."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest
from cards_page import page
from operation_cards import DOCUMENTED, card_of

from wmmadiag.ops import Operation
from wmmadiag.subject.binding import BoundCase, bind

PAGE = page()
OPERATION = pytest.mark.parametrize("operation", DOCUMENTED.values(), ids=lambda one: one.name)


def every_case(operation: Operation, folder, **said) -> Iterator[BoundCase]:
    card = card_of(operation, folder, **said)
    yield from (bind(card, case, card.variants[0]) for case in card.cases)


@OPERATION
@pytest.mark.parametrize("optional", [False, True], ids=["required", "all"])
def test_the_usual_shapes_fit_each_other(tmp_path, operation, optional):
    for bound in every_case(operation, tmp_path, optional=optional):
        assert bound.outputs()


@OPERATION
def test_the_axes_of_the_page_are_a_layout(tmp_path, operation):
    """Also where an axis that the tensors may lack is 1."""
    for name, role in operation.roles.items():
        assert f"| `{name}` | {role.axes}: " in PAGE
        for bound in every_case(operation, tmp_path, keys={name: f'layout = "{role.axes}"'}):
            assert {**bound.inputs(), **bound.outputs()}[name].ndim >= len(role.axes) - 1


@OPERATION
def test_every_order_of_the_axes_is_a_layout(tmp_path, operation):
    for name, role in operation.roles.items():
        for order in list(permutations(role.axes))[:24]:
            for bound in every_case(operation, tmp_path, keys={name: f'layout = "{"".join(order)}"'}):
                assert name in {**bound.inputs(), **bound.outputs()}


@OPERATION
def test_there_may_be_a_stride_for_each_axis(tmp_path, operation):
    for name, role in operation.roles.items():
        strides = [f"({')*('.join(role.shape[axis + 1 :]) or '1'})" for axis in range(len(role.axes))]
        quoted = ", ".join(f'"{one}"' for one in strides)
        for plain, strided in zip(
            every_case(operation, tmp_path, keys={name: f'layout = "{role.axes}"'}),
            every_case(operation, tmp_path, keys={name: f"strides = [{quoted}]"}),
            strict=True,
        ):
            one, other = ({**bound.inputs(), **bound.outputs()}[name] for bound in (plain, strided))
            assert one.shape == other.shape
            assert [a for a, n in zip(one.strides, one.shape, strict=True) if n > 1] == [
                a for a, n in zip(other.strides, other.shape, strict=True) if n > 1
            ]


@OPERATION
def test_a_spread_role_may_have_any_of_its_axes(tmp_path, operation):
    for name, role in operation.roles.items():
        for letter in role.axes if role.usual else "":
            for bound in every_case(operation, tmp_path, keys={name: f'layout = "{letter}"'}):
                extents = bound.inputs()[name].shape
                assert sum(extent > 1 for extent in extents) <= 1


@OPERATION
def test_every_documented_default_can_be_said(tmp_path, operation):
    for name, parameter in operation.parameters.items():
        for said in parameter.words or (str(parameter.default),):
            for bound in every_case(operation, tmp_path, computes=f'{name} = "{said}"'):
                assert name in bound.parameters
