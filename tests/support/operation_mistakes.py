"""What does not fit together in an operation of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.ops.model import Alternative, Choice, Operation

_PARAMETER_KINDS = ("real", "cap", "flag", "int", "count", "reach", "word")


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
