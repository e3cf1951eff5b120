"""The operations that there are, found by walking `catalogue/`.

To add one, write `catalogue/NAME.py`, which defines `OPERATION = Operation("NAME", …)`. What does not fit together in
it fails here, when the package is imported, with the file's name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType

from wmmadiag.ops import catalogue
from wmmadiag.ops.model import Alternative, Choice, Operation

_PARAMETER_KINDS = ("real", "cap", "flag", "int", "count", "reach", "word")


def catalogued(package: ModuleType) -> Mapping[str, Operation]:
    """The operations that the modules of a package define, by name, in the order of `ORDER`, then of their names.

    Raises:
        TypeError: a module defines none, one of another name, or one whose parts do not fit together.
    """
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    first = [name for name in getattr(package, "ORDER", ()) if name in names]
    found: dict[str, Operation] = {}
    for name in (*first, *(name for name in names if name not in first)):
        module = importlib.import_module(f"{package.__name__}.{name}")
        operation = getattr(module, "OPERATION", None)
        if not isinstance(operation, Operation):
            raise TypeError(f"{module.__file__}: it defines no OPERATION")
        if operation.name != name:
            raise TypeError(f"{module.__file__}: the operation is called '{operation.name}', its file '{name}'")
        for mistake in mistakes(operation):
            raise TypeError(f"{module.__file__}: {mistake}")
        found[name] = operation
    return MappingProxyType(found)


def mistakes(operation: Operation) -> Iterator[str]:
    """What does not fit together in an operation, each a clause for its author."""
    yield from _of_roles(operation)
    yield from _of_parameters(operation)
    for packed in operation.packed.values():
        if unknown := set(packed.parts) - set(operation.roles):
            yield f"'{min(unknown)}' is packed with others, but no role"
    yield from _twice(operation)
    for distance in operation.distances:
        if distance.role not in operation.roles:
            yield f"a distance is that of '{distance.role}', which is no role"
    for choice in operation.choices:
        yield from (f"{choice.question} {mistake}" for mistake in _of_choice(operation, choice))


def _of_roles(operation: Operation) -> Iterator[str]:
    for name, role in operation.roles.items():
        if len(role.axes) != len(role.shape):
            yield f"the role '{name}' has {len(role.axes)} axes and {len(role.shape)} extents"
        if len(set(role.axes)) != len(role.axes):
            yield f"the role '{name}' has an axis twice"
        if set(role.usual) - set(role.axes):
            yield f"the role '{name}' is usually spread over an axis that it has not"
        if role.updates and role.updates not in operation.roles:
            yield f"the role '{name}' updates '{role.updates}', which is no role"


def _of_parameters(operation: Operation) -> Iterator[str]:
    for name, parameter in operation.parameters.items():
        if parameter.kind not in _PARAMETER_KINDS:
            yield f"the parameter '{name}' is of the unknown kind '{parameter.kind}'"
        if (parameter.kind == "word") != bool(parameter.words):
            yield f"the parameter '{name}' has words, or needs some"
        if parameter.words and parameter.default not in parameter.words:
            yield f"the default of the parameter '{name}' is none of its words"
        if name in operation.roles:
            yield f"'{name}' is a role and a parameter"


def _twice(operation: Operation) -> Iterator[str]:
    """Words that mean two things."""
    roles = {name: role.spellings for name, role in operation.roles.items()}
    roles |= {name: packed.spellings for name, packed in operation.packed.items()}
    for table in (roles, operation.extents):
        seen: dict[str, str] = {}
        for meaning, words in table.items():
            for word in words.split():
                if seen.setdefault(word, meaning) != meaning:
                    yield f"'{word}' is a word for '{seen[word]}' and for '{meaning}'"


def _of_choice(operation: Operation, choice: Choice) -> Iterator[str]:
    if len(choice.alternatives) < 2:
        yield "has fewer than two answers"
    if unknown := set(choice.roles) - set(operation.roles):
        yield f"is about '{min(unknown)}', which is no role"
    for one in choice.alternatives:
        yield from (f"'{one.name}' {mistake}" for mistake in _of_alternative(operation, one))


def _of_alternative(operation: Operation, one: Alternative) -> Iterator[str]:
    for name, value in one.parameters.items():
        parameter = operation.parameters.get(name)
        if parameter is None:
            yield f"sets '{name}', which is no parameter"
        elif parameter.words and value not in parameter.words:
            yield f"sets '{name}' to '{value}', which is none of its words"
    for role, layout in one.layouts.items():
        if role not in operation.roles:
            yield f"lays '{role}' out, which is no role"
        elif layout and sorted(layout) != sorted(operation.roles[role].axes):
            yield f"lays '{role}' out as '{layout}', which are not its axes"


OPERATIONS: Mapping[str, Operation] = catalogued(catalogue)
"""Every operation by name, the commonest first."""
