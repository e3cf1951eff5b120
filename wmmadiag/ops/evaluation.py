"""An operation evaluated: what a kernel should give, and how far rounding may lead from it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Protocol

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, Judgement
from wmmadiag.ops.registry import OPERATIONS


def reference(operation: str, parameters: Values, inputs: Arrays) -> Outputs:
    """The expected outputs of an operation, by role; one that may be written over an input is there by either role.

    Args:
        operation: a name in `OPERATIONS` other than "python".
        parameters: evaluated, as `symbols.evaluate_parameters` gives them.
        inputs: logical tensors by role.

    Raises:
        ConfigurationError: it is not defined for tensors of these extents, or with these parameters.
    """
    known = OPERATIONS[operation]
    if known.oracle is None:
        raise ValueError(f"no reference for the operation {operation!r}")
    try:
        with _unwarned(inputs):
            expected = known.oracle(parameters, inputs)
    except ValueError as error:
        extents = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
        raise ConfigurationError(
            f"{operation} cannot be computed of {extents}: {error}",
            hint="check the symbols of this case, and what the card says of the operation's parameters",
        ) from error
    return expected | {over: expected[name] for name, over in _updated(known).items() if name in expected}


def judge(
    operation: str, parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
) -> Judged:
    """The bounds of an operation's outputs, by the roles that the kernel has.

    Args:
        operation, parameters, inputs: as `reference` takes them.
        expected: the reference's outputs by role.
        elements: element type of every role that the kernel has.
    """
    known = OPERATIONS[operation]
    if known.bound is None:
        raise ValueError(f"no bound for the operation {operation!r}")
    over = {
        name: old
        for name, old in _updated(known).items()
        if name not in elements and old in elements and {name, old} & expected.keys()
    }
    types = {**elements, **{name: elements[old] for name, old in over.items()}}
    values = {**expected, **{name: expected[old] for name, old in over.items() if name not in expected}}
    with _unwarned(inputs):
        judged = known.bound(parameters, inputs, values, types)
    return {over.get(role, role): judgement for role, judgement in judged.items()}


@contextlib.contextmanager
def _unwarned(inputs: Arrays) -> Iterator[None]:
    """What overflows or is no number is judged by element, on inputs that are hard too: NumPy need not warn of it; nor,
    where a tensor has no element, of means and quotients that nobody sees."""
    if all(array.size for array in inputs.values()):
        with np.errstate(all="ignore"):
            yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _updated(operation: Operation) -> dict[str, str]:
    """Input by the output that may be written over it."""
    return {name: role.updates for name, role in operation.roles.items() if role.updates}


class ChosenTolerance(Protocol):
    """What a card may say in place of the bound; `subject.card.ChosenTolerance` is one."""

    @property
    def atol(self) -> float:
        """Absolute part."""

    @property
    def rtol(self) -> float:
        """Part relative to what is expected."""


def tolerance(expected: Doubles, chosen: ChosenTolerance) -> Judgement:
    """The card's own tolerance as a bound: atol + rtol·|expected|."""
    with np.errstate(invalid="ignore"):
        return Judgement(chosen.atol + chosen.rtol * np.abs(np.nan_to_num(expected, posinf=0.0, neginf=0.0)))
