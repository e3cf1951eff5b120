"""Template kernels that the host code names: what nvcc would instantiate must be asked of NVRTC by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.compile.blanking import Context, Part
from wmmadiag.compile.declarations import Declaration
from wmmadiag.compile.host_code import mentioned_instantiations
from wmmadiag.compile.lexer import Token, closing, tokenize

_MAX = 64
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class KernelTemplate:
    """A template of a kernel: its name, with and without scope, and which of its parameters are `bool`."""

    name: str
    qualified_name: str
    booleans: tuple[bool, ...] = ()


def is_kernel(declaration: Declaration, known: Context) -> bool:
    """Whether it declares a `__global__` function, by itself or through a macro."""
    words = declaration.words()
    return "__global__" in words or any("__global__" in known.macros.get(word, ()) for word in words)


def kernel_templates(parts: Iterable[Part], known: Context) -> tuple[KernelTemplate, ...]:
    """The kernel templates among declarations."""
    found: dict[str, KernelTemplate] = {}
    for part in parts:
        declaration = part.declaration
        if is_kernel(declaration, known) and declaration.template and declaration.kind in ("function", "prototype"):
            found[declaration.qualified_name] = KernelTemplate(
                declaration.name, declaration.qualified_name, _booleans(declaration.head)
            )
    return tuple(found.values())


def _booleans(head: Sequence[Token]) -> tuple[bool, ...]:
    """Which parameters of the first `template<…>` header are of type bool."""
    if len(head) < 2 or head[0].text != "template" or head[1].text != "<":
        return ()
    found, depth, fresh, is_bool, index = list[bool](), 0, True, False, 1
    while index < len(head):
        text = head[index].text
        if text == "(":
            index = closing(head, index)
        depth += (text == "<") - (text == ">")
        if depth == 0 or (depth == 1 and text == ","):
            found.append(is_bool)
            fresh, is_bool = True, False
            if depth == 0:
                break
        elif fresh and depth == 1 and head[index].kind == "id" and text != "const":
            fresh, is_bool = False, text == "bool"
        index += 1
    return tuple(found)


def boolean_choices(expression: str, unknown: str, templates: Sequence[KernelTemplate]) -> tuple[str, ...]:
    """The two expressions with true and false for `unknown`, where that stands for a `bool` parameter; else none.

    Host code often turns a run-time flag into a constant by a macro (`BOOL_SWITCH(causal, kCausal, …)`), whose name
    only the preprocessor knows; nvcc then makes both.
    """
    name, _, rest = expression.partition("<")
    template = next((one for one in templates if one.qualified_name == name), None)
    if template is None or not rest.endswith(">"):
        return ()
    parts = _top_level_parts(rest[:-1])
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


def scoped_arguments(expressions: Iterable[str], parts: Sequence[Part]) -> tuple[str, ...]:
    """Name expressions whose template arguments name types with their namespaces: Traits<64> → ns::Traits<64>.

    Host code inside the namespace leaves it out; the compiler looks names up at file scope.
    """
    scopes: dict[str, set[str]] = {}
    for part in parts:
        one = part.declaration
        if one.kind in ("class", "enum", "alias") and one.name and not part.in_class:
            scopes.setdefault(one.name, set()).add(one.qualified_name)
    found = []
    for expression in expressions:
        name, bracket, rest = expression.partition("<")
        pieces, position = [], 0
        tokens = tokenize(rest)
        for index, token in enumerate(tokens):
            known = scopes.get(token.text, set()) if token.kind == "id" else set()
            if len(known) == 1 and not (index and tokens[index - 1].text == "::"):
                pieces += [rest[position : token.start], next(iter(known))]
                position = token.end
        found.append(name + bracket + "".join(pieces) + rest[position:])
    return tuple(found)


def wanted_instantiations(parts: Sequence[Part], templates: Sequence[KernelTemplate]) -> tuple[str, ...]:
    """Name expressions for every `kernel<…>` in host code, in order.

    Constants of the host function and parameters of a host template that is itself named with arguments are put in;
    what stays unknown is left for the compiler to refuse.
    """
    hosts = [
        part.declaration
        for part in parts
        if part.verdict == "host" and (part.declaration.body or part.declaration.kind == "instantiation")
    ]
    by_name: dict[str, list[KernelTemplate]] = {}
    for template in templates:
        by_name.setdefault(template.name, []).append(template)
    found: list[str] = []
    for host in hosts:
        for name, arguments in mentioned_instantiations(host.body, frozenset(by_name)):
            for text in _resolved(arguments, host, hosts, _DEPTH):
                for template in by_name[name]:
                    expression = f"{template.qualified_name}<{text}>"
                    if expression not in found and len(found) < _MAX:
                        found.append(expression)
    return tuple(found)


def _resolved(arguments: str, host: Declaration, hosts: Sequence[Declaration], depth: int) -> list[str]:
    """The texts that `arguments`, written inside `host`, can stand for."""
    text = _substitute(arguments, _constants(host.body))
    parameters = template_parameters(host.head)
    used = {token.text for token in tokenize(text) if token.kind == "id"}
    if depth == 0 or not used & set(parameters):
        return [text]
    found: list[str] = []
    for caller in hosts:
        # `template void launch<float>(…);` names it in its head.
        named_in = caller.head if caller.kind == "instantiation" else caller.body
        for _, given in mentioned_instantiations(named_in, frozenset({host.name})):
            values = _top_level_parts(given)
            if len(values) > len(parameters):
                continue
            for value in _resolved(", ".join(values), caller, hosts, depth - 1):
                bound = dict(zip(parameters, _top_level_parts(value), strict=False))
                replaced = _substitute(text, bound)
                if replaced not in found:
                    found.append(replaced)
    return found or [text]


def template_parameters(head: Sequence[Token]) -> tuple[str, ...]:
    """The parameter names of the last `template<…>` header in a declaration's head."""
    names: list[str] = []
    index = 0
    while index + 1 < len(head) and head[index].text == "template" and head[index + 1].text == "<":
        names, depth, name, index = [], 0, "", index + 1
        defaulted = False
        while index < len(head):
            token = head[index]
            if token.text == "(":
                index = closing(head, index)
            elif token.text == "<":
                depth += 1
            elif token.text == ">":
                depth -= 1
            if depth == 0 or (depth == 1 and token.text == ","):
                names.append(name)
                name, defaulted = "", False
                if depth == 0:
                    break
            elif token.text == "=" and depth == 1:
                defaulted = True
            elif token.kind == "id" and depth == 1 and not defaulted:
                name = token.text
            index += 1
        index += 1
    return tuple(name for name in names if name)


def _constants(body: Sequence[Token]) -> dict[str, str]:
    """`const`/`constexpr` integers, and type aliases, defined in a function body: name → text."""
    found: dict[str, str] = {}
    for index in range(len(body) - 2):
        token = body[index]
        if token.text in ("constexpr", "const", "enum"):
            found.update(_initialised(body, index, "}" if token.text == "enum" else ";"))
        elif token.text == "using" and body[index + 2].text == "=":
            stop = index + 3
            while stop < len(body) and body[stop].text != ";":
                stop += 1
            found[body[index + 1].text] = " ".join(part.text for part in body[index + 3 : stop])
    return found


def _initialised(body: Sequence[Token], start: int, last: str) -> dict[str, str]:
    """`name = value` in a list of declarators or enumerators that ends with `last`."""
    found: dict[str, str] = {}
    index = start
    while index < len(body) and body[index].text not in (last, ";", "("):
        if body[index].text != "=" or body[index - 1].kind != "id":
            index += 1
            continue
        stop = index + 1
        while stop < len(body) and body[stop].text not in (";", ",", last):
            stop = closing(body, stop) + 1 if body[stop].text in ("(", "{") else stop + 1
        value = [part.text for part in body[index + 1 : stop]]
        found[body[index - 1].text] = value[0] if len(value) == 1 else f"({' '.join(value)})"
        index = stop
    return found


def _substitute(text: str, values: Mapping[str, str]) -> str:
    """`text` with identifiers replaced, repeatedly but not endlessly."""
    for _ in range(4):
        words = [values.get(token.text, token.text) if token.kind == "id" else token.text for token in tokenize(text)]
        replaced = " ".join(words)
        if replaced == text:
            break
        text = replaced
    return text.replace(" :: ", "::").replace(" ,", ",").replace(" < ", "<").replace(" >", ">")


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
