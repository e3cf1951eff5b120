"""Template kernels that the host code names: what nvcc would instantiate must be asked of NVRTC by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.compile.host_only import Declaration
from wmmadiag.csource.declarations import Function, template_parameters
from wmmadiag.csource.meanings import written_out
from wmmadiag.csource.nodes import Node, ancestors, descendants, field
from wmmadiag.csource.outline import Item
from wmmadiag.csource.tree import Source

_MAX = 64
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class KernelTemplate:
    """A template of a kernel: its name, with and without scope, and which of its parameters are `bool`."""

    name: str
    qualified_name: str
    booleans: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class _NamedTemplate:
    """A template with the arguments that host code gives it: `arguments` are nodes of `source`, in `host`."""

    name: str
    arguments: tuple[Node, ...]
    source: Source
    host: Item


def kernel_templates(kernels: Iterable[tuple[Source, Function]]) -> tuple[KernelTemplate, ...]:
    """The kernel templates among kernels."""
    found: dict[str, KernelTemplate] = {}
    for _, one in kernels:
        if one.template:
            booleans = tuple(parameter.type == "bool" for parameter in one.template)
            found.setdefault(one.qualified, KernelTemplate(one.name, one.qualified, booleans))
    return tuple(found.values())


def boolean_choices(expression: str, unknown: str, templates: Sequence[KernelTemplate]) -> tuple[str, ...]:
    """The two expressions with true and false for `unknown`, where that stands for a `bool` parameter; else none.

    Host code often turns a run-time flag into a constant by a macro (`BOOL_SWITCH(causal, kCausal, …)`), whose name
    only the preprocessor knows; nvcc then makes both.
    """
    name, _, rest = expression.partition("<")
    template = next((one for one in templates if one.qualified_name == name), None)
    if template is None or not rest.endswith(">"):
        return ()
    parts = [part.strip() for part in _top_level_parts(rest[:-1])]
    places = [i for i, part in enumerate(parts) if part == unknown and template.booleans[i : i + 1] == (True,)]
    if not places:
        return ()
    return tuple(
        f"{name}<{', '.join(value if i in places else part for i, part in enumerate(parts))}>"
        for value in ("true", "false")
    )


def qualified_expressions(expressions: Iterable[str], templates: Sequence[KernelTemplate]) -> tuple[str, ...]:
    """Name expressions with the scope of the template that they name, where only one kernel template has that name.

    The compiler looks names up at file scope; "attn<64>" for `ns::attn` is what people write.
    """
    found = []
    for expression in expressions:
        name, bracket, rest = expression.partition("<")
        named = [one for one in templates if one.qualified_name.endswith("::" + name.strip().removeprefix("::"))]
        exact = any(one.qualified_name == name.strip() for one in templates)
        found.append(f"{named[0].qualified_name}{bracket}{rest}" if len(named) == 1 and not exact else expression)
    return tuple(found)


def scoped_arguments(expressions: Iterable[str], parts: Iterable[Declaration]) -> tuple[str, ...]:
    """Name expressions whose template arguments name what stands in namespaces with these: Traits<64> → ns::Traits<64>.

    Host code inside the namespace leaves it out; the compiler looks names up at file scope.
    """
    scopes: dict[str, set[str]] = {}
    for item in (part.item for part in parts):
        if item.kind in ("record", "enum", "alias", "variable") and item.name and item.parent is None:
            scopes.setdefault(item.name, set()).add(item.qualified)

    def qualified(match: re.Match[str]) -> str:
        known = scopes.get(match[0], set())
        return next(iter(known)) if len(known) == 1 else match[0]

    found = []
    for expression in expressions:
        name, bracket, rest = expression.partition("<")
        found.append(name + bracket + re.sub(r"(?<![\w:.'\"])[A-Za-z_]\w*", qualified, rest))
    return tuple(found)


def wanted_instantiations(
    sources: Mapping[str, Source], parts: Mapping[str, Sequence[Declaration]], templates: Sequence[KernelTemplate]
) -> tuple[str, ...]:
    """Name expressions for every `kernel<…>` in host code, in order.

    Constants of the host function and parameters of a host template that is itself named with arguments are put in;
    what stays unknown is left for the compiler to refuse.
    """
    hosts = [(sources[key], part.item) for key, some in parts.items() for part in some if part.verdict == "host"]
    by_name: dict[str, list[KernelTemplate]] = {}
    for template in templates:
        by_name.setdefault(template.name, []).append(template)
    called = frozenset(item.name for _, item in hosts)
    named = [one for source, item in hosts for one in _named(source, item, called | frozenset(by_name))]
    found: list[str] = []
    for one in named:
        for template in by_name.get(one.name, ()):
            for text in _resolved(one, named, _DEPTH):
                expression = f"{template.qualified_name}<{text}>"
                if expression not in found and len(found) < _MAX:
                    found.append(expression)
    return tuple(found)


def _named(source: Source, item: Item, names: frozenset[str]) -> Iterator[_NamedTemplate]:
    """The templates that a piece of host code names with arguments."""
    for node in descendants(item.outer, "template_function", "template_type", "template_method"):
        name = field(node, "name")
        listed = field(node, "arguments")
        if name is not None and listed is not None and (called := source.text(name)) in names:
            arguments = tuple(one for one in listed.named_children if one.type != "comment")
            yield _NamedTemplate(called, arguments, source, item)


def _resolved(one: _NamedTemplate, named: Sequence[_NamedTemplate], depth: int) -> list[str]:
    """The texts that the arguments of a template can stand for."""
    texts = [written_out(one.source, node) for node in one.arguments]
    parameters = _parameters(one)
    used = {word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)}
    if depth == 0 or not used.intersection(parameters):
        return [", ".join(texts)]
    found: list[str] = []
    for caller in named:
        if caller.name != one.host.name or caller.host is one.host or len(caller.arguments) > len(parameters):
            continue
        for given in _resolved(caller, named, depth - 1):
            bound = dict(zip(parameters, _top_level_parts(given), strict=False))
            replaced = [_put(text, bound) for text in texts]
            if (text := ", ".join(replaced)) not in found:
                found.append(text)
    return found or [", ".join(texts)]


def _parameters(one: _NamedTemplate) -> list[str]:
    """The template parameters of the function that the arguments are written in."""
    around = [node for node in (one.host.node, *ancestors(one.host.node)) if node.type == "template_declaration"]
    return [parameter.name for node in around[:1] for parameter in template_parameters(one.source, node)]


def _put(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"(?<![\w:.])[A-Za-z_]\w*", lambda found: values.get(found[0], found[0]).strip(), text)


def _top_level_parts(text: str) -> list[str]:
    parts, depth, word = [], 0, ""
    for letter in text:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            parts.append(word.strip())
            word = ""
        else:
            word += letter
    return [*parts, word.strip()] if word.strip() or parts else []
