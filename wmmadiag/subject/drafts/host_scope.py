"""What names in the host code around a launch mean: the scope in which its expressions are translated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from wmmadiag.subject.drafts.c_expressions import HostScope
from wmmadiag.subject.drafts.guess import Parameter, symbol_for, value_for
from wmmadiag.subject.drafts.host_tensors import TensorAxes, tensor_axes
from wmmadiag.subject.drafts.source_facts import (
    call_values,
    class_values,
    constants,
    dimension_members,
    helpers,
    processor_counts,
)

Ask: TypeAlias = Callable[[str, str], int | None]
"""Asks the compiler for a constant: (C++ expression, declarations that it needs) → value, None if it has none."""

# math.h, and the constants of CUDA's math_constants.h.
_CONSTANTS = {
    "M_LOG2E": "1.4426950408889634", "CUDART_L2E_F": "1.4426950408889634", "M_LN2": "0.6931471805599453",
    "M_PI": "3.141592653589793", "M_SQRT1_2": "0.7071067811865476",
}  # fmt: skip
_MAX_QUESTIONS = 6  # each is a compilation
_CASTS = r"(?:\([^()]*\)\s*|\w+_cast\s*<[^<>]*>\s*\(\s*)*"


class Text(Protocol):
    """An expression as written in host code."""

    @property
    def text(self) -> str:
        """Its text."""
        ...


class Launched(Protocol):
    """A launch in host code; `wmmadiag.compile.host_code.HostLaunch` is one."""

    @property
    def kernel(self) -> str:
        """As in `HostLaunch`."""
        ...

    @property
    def template_arguments(self) -> Sequence[Text]:
        """As in `HostLaunch`."""
        ...

    @property
    def grid(self) -> Text | None:
        """As in `HostLaunch`."""
        ...

    @property
    def block(self) -> Text | None:
        """As in `HostLaunch`."""
        ...

    @property
    def shared(self) -> Text | None:
        """As in `HostLaunch`."""
        ...

    @property
    def arguments(self) -> Sequence[Text]:
        """As in `HostLaunch`."""
        ...

    @property
    def function(self) -> str:
        """As in `HostLaunch`."""
        ...

    @property
    def locals(self) -> Sequence[tuple[str, Text]]:
        """As in `HostLaunch`."""
        ...

    @property
    def aliases(self) -> Sequence[tuple[str, Text]]:
        """As in `HostLaunch`."""
        ...

    @property
    def derived(self) -> bool:
        """As in `HostLaunch`."""
        ...

    @property
    def members(self) -> Sequence[tuple[str, str]]:
        """As in `HostLaunch`."""
        ...


def passed_variable(text: str) -> str:
    """The variable that an argument of a launch is made of, casts aside: "(half*)q.data_ptr()" → "q"; else ""."""
    found = re.match(_CASTS + r"&?\s*([A-Za-z_]\w*)", text)
    return found[1] if found else ""


def host_names(launch: Launched | None, source: str) -> dict[str, str]:
    """Names of the launching function whose text can stand in their place: template arguments and type aliases."""
    if launch is None:
        return {}
    *classes, function = launch.function.split("::")
    names = call_values(source, function)
    for name in classes:
        names = {**class_values(source, name), **names}
    return {**names, **{name: text.text for name, text in launch.aliases if name not in names}}


def replaced(text: str, names: Mapping[str, str]) -> str:
    """The text with names replaced by what stands for them, again and again but not endlessly."""
    for _ in range(6):
        new = re.sub(r"(?<![\w:.])[A-Za-z_]\w*", lambda match: names.get(match[0], match[0]), text)
        if new == text:
            break
        text = new
    return text


def host_scope(
    launch: Launched | None,
    source: str,
    operation: str,
    parameters: Sequence[Parameter],
    roles: Mapping[str, str],
    symbols: Mapping[str, str],
    ask: Ask | None = None,
) -> tuple[HostScope, TensorAxes]:
    """The scope of a launch, and how its tensors lie.

    Args:
        launch: None where the source has none; the scope then holds the source's constants alone.
        parameters: of the kernel.
        roles: of the kernel's pointers, by name.
        symbols: name → symbol, as far as names tell.
        ask: the compiler.
    """
    known = constants(source)
    local = {name: value.text for name, value in launch.locals} if launch is not None else {}
    local = {**dimension_members(local, source), **local}
    meanings = dict(symbols)
    tensors: dict[str, tuple[str, str]] = {}  # variable → role, and the parameter's name
    names = host_names(launch, source)
    if launch is not None:
        for parameter, argument in zip(parameters, launch.arguments, strict=False):
            if parameter.pointer and parameter.name in roles:
                tensors.setdefault(passed_variable(argument.text), (roles[parameter.name], parameter.name))
        for parameter in parameters:  # an accessor's own name, in the kernel
            if parameter.struct == parameter.name and parameter.name in roles:
                tensors.setdefault(parameter.name, (roles[parameter.name], parameter.name))
    axes = tensor_axes(source, operation, {variable: role for variable, (role, _) in tensors.items()})
    ranks = {one.name: sum(other.struct == one.struct for other in parameters) // 2 for one in parameters if one.struct}
    for variable, (role, name) in tensors.items():
        accessor = f"{name}.size(0)" in ranks
        meanings.update(axes.symbols(variable, role, operation, ranks[name] if accessor else 0))
    for name in _words(launch) - set(local) - set(known):
        if name not in meanings and (value := value_for(name, operation)) is not None:
            meanings[name] = value  # `softmax_scale`, a parameter of the launching function
    values = {name: text for name, text in names.items() if re.fullmatch(r"[\w\s()+*/-]+", text)}
    own = {name: text for name, text in local.items() if name not in meanings}
    definitions = {**_CONSTANTS, **processor_counts(source), **known, **values, **own}
    scope = HostScope(
        meanings, definitions, helpers(source), _asker(launch, source, names, set(meanings) - set(names), ask)
    )
    return scope, axes


def _words(launch: Launched | None) -> set[str]:
    if launch is None:
        return set()
    texts = [argument.text for argument in launch.arguments] + [value.text for _, value in launch.locals]
    return {word for text in texts for word in re.findall(r"(?<![\w.>])[A-Za-z_]\w*(?!\s*[(.])", text)}


def _asker(
    launch: Launched | None, source: str, names: Mapping[str, str], variable: set[str], ask: Ask | None
) -> Callable[[str], int | None] | None:
    if ask is None:
        return None
    before = []
    path = launch.function.split("::")[:-1] if launch is not None else []
    for end in range(1, len(path) + 1):
        if re.search(rf"\bnamespace\b[^;{{}}]*\b{re.escape(path[end - 1])}\s*\{{", source):
            before.append(f"using namespace {'::'.join(path[:end])};")
    answers: dict[str, int | None] = {}

    def answer(expression: str) -> int | None:
        if variable & set(re.findall(r"(?<![\w.>:])[A-Za-z_]\w*(?!\s*::)", expression)):
            return None  # no constant
        text = replaced(expression, names)
        if text not in answers:
            answers[text] = ask(text, "\n".join(before)) if len(answers) < _MAX_QUESTIONS else None
        return answers[text]

    return answer


def same_text(launch: Launched, parameters: Sequence[Parameter], operation: str) -> dict[str, str]:
    """Expressions that host code passes for a parameter of known meaning: {"BH * N": "M"}, blanks as single ones."""
    found: dict[str, str] = {}
    for parameter, argument in zip(parameters, launch.arguments, strict=False):
        symbol = None if parameter.pointer else symbol_for(parameter.name, operation)
        text = " ".join(argument.text.split())
        if symbol is not None and re.search(r"[^\w.]", text) and re.search(r"[A-Za-z_]", text):
            found.setdefault(text, symbol)
    return found
