"""The readings of a kernel: the ways in which its arguments may be meant, made of an operation's `choices`.

BLAS code stores columns, `nn.Linear` stores B as N×K, a kernel may sum in half or read what it writes. All of them are
GEMMs. Who judges a kernel by an assumed reading can ask here what else it may be:

    assumed = Assumed({"a": "f16", "b": "f16", "d": "f32"})
    for reading in readings(operation, assumed):
        print(reading.name)  # "B stored as N×K, as nn.Linear has it"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from wmmadiag.ops.model import Alternative, Choice, Operation, ParameterKind, Setting

_FALSE = ("0", "false", "")


@dataclass(frozen=True, slots=True)
class Assumed:
    """The reading that a kernel is judged by."""

    roles: Mapping[str, str]  # element type of each role that it has
    parameters: Mapping[str, Setting] = field(default_factory=dict)  # what `[computes]` says, by name
    # of roles whose axes lie in another order in memory than the operation lists them
    layouts: Mapping[str, str] = field(default_factory=dict)
    # what the kernel takes as numbers. A parameter that is one of them is not open.
    symbols: frozenset[str] = frozenset()
    placed: frozenset[str] = frozenset()  # roles of which it is known how they lie in memory
    # roles of inputs in one storage → the order of the axes that is assumed of it
    packed: Mapping[str, str] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()  # questions that are not open any more


@dataclass(frozen=True, slots=True)
class Reading:
    """Another way to read a kernel: what changes, relative to what is assumed."""

    name: str  # one line, "B stored as N×K, as nn.Linear has it"
    kinds: frozenset[ParameterKind]  # what the changes are about
    questions: tuple[str, ...]  # those whose answers they are: what to ask the user
    parameters: Mapping[str, Setting]  # what `[computes]` says instead, by name
    # the order of axes in memory instead, by role as it is assumed; "" for the operation's own
    layouts: Mapping[str, str]
    # what a role then becomes: {"d": "c"} where the output is read, too, {"c": "d"} where it is not
    roles: Mapping[str, str]
    packed: tuple[str, str] | None  # what inputs in one storage are instead: their role, and the order of its axes
    # whether kernels are written so on purpose. What is right under a reading that is not may as well be a mistake.
    deliberate: bool


def readings(
    operation: Operation,
    assumed: Assumed,
    *,
    changes: int = 3,
    kinds: Sequence[ParameterKind] = ("storage", "meaning", "arithmetic"),
) -> Iterator[Reading]:
    """Every other reading of a kernel, those with the fewest changes first.

    Args:
        changes: the most answers that may differ at once. Matrices stored by columns, as BLAS has them, are three.
        kinds: of questions that are open.
    """
    open_ones = [
        (choice, others)
        for choice in (*operation.choices, *_together(operation, assumed))
        if choice.kind in kinds and (others := _others(operation, choice, assumed))
    ]
    for count in range(1, changes + 1):
        for chosen in combinations(open_ones, count):
            for answers in product(*(others for _, others in chosen)):
                reading = _combined(operation, assumed, [choice for choice, _ in chosen], answers)
                if reading is not None:
                    yield reading


def _together(operation: Operation, assumed: Assumed) -> Iterator[Choice]:
    """How inputs lie in one storage, which nobody said: in which order, and along which axes."""
    for name in assumed.packed:
        parts = operation.packed[name].parts
        axes = operation.roles[parts[0]].axes
        outputs = [one for one, role in operation.roles.items() if role.output and role.axes == axes]
        found = []
        for other, one in operation.packed.items():
            for layout in one.layouts if {*one.parts} == {*parts} else ():
                words = f"{listed(one.parts)} in one tensor stored as {layout}"
                found.append(Alternative(words, packed=(other, layout)))
                for size in one.blocks.get(layout, ()):
                    turns = f"{words}, blocks of {size} by turns"
                    found.append(Alternative(turns, {"block": str(size)}, packed=(other, layout)))
                plain = layout.replace(str(len(parts)), "")
                if outputs:  # an output of the same axes is stored like them, or as it is
                    words = f"{words}, {listed(outputs)} as {plain}"
                    found.append(Alternative(words, layouts=dict.fromkeys(outputs, plain), packed=(other, layout)))
        yield Choice(f"How do {listed(parts)} lie in one tensor?", "storage", tuple(found))


def listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _others(operation: Operation, choice: Choice, assumed: Assumed) -> tuple[Alternative, ...]:
    """The answers that are not the assumed one; none where the question is not open."""
    if choice.question in assumed.answered or any(role not in assumed.roles for role in choice.roles):
        return ()
    if choice.types and assumed.roles[choice.roles[0]] not in choice.types:
        return ()
    element, parameter, value = choice.settled
    if element and assumed.roles[choice.roles[0]] == element and _symbol(operation, parameter, assumed) == value:
        return ()
    moved = {role for one in choice.alternatives for role in one.layouts} & set(assumed.roles)
    together = any(one.packed is not None for one in choice.alternatives)
    if choice.kind == "storage" and not together and {*choice.roles, *moved} & assumed.placed:
        return ()
    if any(one.updated is not None for one in choice.alternatives) and not _one_place(operation, assumed):
        return ()
    concerned = {name for one in choice.alternatives for name in one.parameters}
    about = {name for one in choice.alternatives for text in one.parameters.values()
             for name in re.findall(r"[a-z_]+", str(text)) if name in concerned}  # fmt: skip
    if not about <= assumed.symbols:  # what a number means that the kernel does not take
        return ()
    if any(_symbol(operation, name, assumed) in assumed.symbols - about for name in concerned):
        return ()
    return tuple(one for one in choice.alternatives if not _holds(operation, one, assumed))


def _symbol(operation: Operation, parameter: str, assumed: Assumed) -> str:
    return str(assumed.parameters.get(parameter, operation.parameters[parameter].default))


def _value(operation: Operation, parameter: str, assumed: Assumed) -> str:
    """What a parameter is assumed to be, symbols that nobody gives at their defaults."""
    text = _symbol(operation, parameter, assumed)
    seen = set()
    while text in operation.symbols and text not in seen:
        seen.add(text)
        text = operation.symbols[text]
    return text


def _same(one: Setting, other: Setting) -> bool:
    folded = ["0" if str(text).lower() in _FALSE else "1" if str(text).lower() == "true" else str(text)
              for text in (one, other)]  # fmt: skip
    return folded[0] == folded[1]


def _holds(operation: Operation, one: Alternative, assumed: Assumed) -> bool:
    """Whether an answer is what is assumed."""
    return (
        all(_same(value, _value(operation, name, assumed)) for name, value in one.parameters.items())
        and all(
            _layout(operation, role, text) == _layout(operation, role, assumed.layouts.get(role, ""))
            for role, text in one.layouts.items()
            if role in assumed.roles
        )
        and one.updated in (None, _updated(operation, assumed))
        and (one.packed is None or assumed.packed.get(one.packed[0]) == one.packed[1])
    )


def _layout(operation: Operation, role: str, text: str) -> str:
    return text or operation.roles[role].axes


def _updated(operation: Operation, assumed: Assumed) -> bool:
    """Whether an output lies where its input does: the role that a kernel writes is then that input's."""
    return any(
        one.updates and one.updates in assumed.roles and name not in assumed.roles
        for name, one in operation.roles.items()
    )


def _one_place(operation: Operation, assumed: Assumed) -> bool:
    """Whether an output and the input that it may be written over are one argument, whichever role that has."""
    return any(
        one.updates and (name in assumed.roles) != (one.updates in assumed.roles)
        for name, one in operation.roles.items()
    )


def _combined(
    operation: Operation, assumed: Assumed, choices: Sequence[Choice], answers: Sequence[Alternative]
) -> Reading | None:
    """Answers to several questions at once; None where they contradict each other."""
    parameters: dict[str, Setting] = {}
    layouts: dict[str, str] = {}
    roles: dict[str, str] = {}
    for one in answers:
        for words, said in ((parameters, one.parameters), (layouts, one.layouts)):
            if any(words.get(name, value) != value for name, value in said.items()):
                return None
            words.update(said)  # type: ignore[arg-type]
        if one.updated is not None:
            over = {name: role.updates for name, role in operation.roles.items() if role.updates}
            roles |= over if one.updated else {old: new for new, old in over.items()}
    return Reading(
        " and ".join(one.name for one in answers),
        frozenset(choice.kind for choice in choices),
        tuple(choice.question for choice in choices),
        parameters,
        {role: text for role, text in layouts.items() if role in assumed.roles},
        {old: new for old, new in roles.items() if old in assumed.roles},
        next((one.packed for one in answers if one.packed is not None), None),
        all(one.deliberate for one in answers),
    )
