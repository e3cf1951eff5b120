"""Facts from the host code of a source: how it launches its kernels, and which template instantiations it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from wmmadiag.compile.declarations import Declaration, declarations
from wmmadiag.compile.forwarding import forwarded
from wmmadiag.compile.launch_config import configuration as launch_configuration
from wmmadiag.compile.launch_macros import expand_launch_macros
from wmmadiag.compile.lexer import Token, closing, line_index, tokenize
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class SourceExpression:
    """An expression as written, blanks and line ends reduced to single blanks, and where it begins."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """One launch in host code: `kernel<args><<<grid, block, shared, stream>>>(arguments)`.

    Attributes:
        kernel: name as written, with its scope ("ns::attn"), template arguments apart.
        template_arguments: as written, empty for a plain kernel.
        grid, block, shared, stream: launch configuration; None where left out.
        arguments: of the kernel.
        place: of the kernel's name.
        function: the host function that it stands in, "" at file scope.
        attributes: `cudaFuncSetAttribute` calls on that kernel in the source: (attribute, value).
        locals: `dim3` and integer definitions of that function, name → initialiser.
        aliases: `using T = …;` of that function.
        members: names of struct members in host code, "params.b", → the parameter that the member is made into.
        derived: whether there is no such launch, but the kernel's own code tells what one would be.
    """

    kernel: str
    template_arguments: tuple[SourceExpression, ...]
    grid: SourceExpression | None
    block: SourceExpression | None
    shared: SourceExpression | None
    stream: SourceExpression | None
    arguments: tuple[SourceExpression, ...]
    place: Place
    function: str
    attributes: tuple[tuple[str, SourceExpression], ...] = ()
    locals: tuple[tuple[str, SourceExpression], ...] = ()
    aliases: tuple[tuple[str, SourceExpression], ...] = ()
    members: tuple[tuple[str, str], ...] = ()
    derived: bool = False


@dataclass(frozen=True, slots=True)
class _Reader:
    text: str
    file: str
    locate: Callable[[int], tuple[int, int]]

    def place(self, offset: int) -> Place:
        return Place(self.file, *self.locate(offset))

    def expression(self, tokens: Sequence[Token]) -> SourceExpression | None:
        if not tokens:
            return None
        text = " ".join(self.text[tokens[0].start : tokens[-1].end].split())
        return SourceExpression(text, self.place(tokens[0].start))

    def expressions(self, groups: Iterable[Sequence[Token]]) -> tuple[SourceExpression, ...]:
        found = (self.expression(group) for group in groups)
        return tuple(expression for expression in found if expression is not None)


def find_launches(text: str, file: str = "") -> tuple[HostLaunch, ...]:
    """The kernel launches in a source, in order.

    Found: `k<<<…>>>(…)`, `cudaLaunchKernel`, `cudaLaunchCooperativeKernel` and `cudaLaunchKernelEx`, also in macros, at
    the place of their invocation, and by helpers that are given the kernel, at the place of their call. Never fails:
    what it does not understand it leaves out.
    """
    text = expand_launch_macros(text)
    reader = _Reader(text, file, line_index(text))
    found: list[HostLaunch] = []
    attributes = _attributes(reader, tokenize(text))
    try:
        scopes = declarations(tokenize(text))
    except RecursionError:
        return ()
    functions = tuple(_functions(scopes))
    for declaration in functions:
        body = declaration.body
        definitions, aliases = _definitions(reader, body), _aliases(reader, body)
        pointers = _kernel_pointers(reader, body)
        for launch in (*_chevrons(reader, body), *_api_launches(reader, body)):
            name, template_arguments, configuration, arguments, start = launch
            helped = _helped(reader, functions, declaration, launch, (definitions, aliases), attributes)
            if helped:
                found += helped
                continue
            grid, block, shared, stream = (*configuration, None, None, None, None)[:4]
            known = {name.split("::")[-1]}
            if name in pointers and not template_arguments:
                name, template_arguments = pointers[name]
                known.add(name.split("::")[-1])
            found.append(
                HostLaunch(
                    name,
                    template_arguments,
                    grid,
                    block,
                    shared,
                    stream,
                    arguments,
                    reader.place(start),
                    declaration.qualified_name,
                    tuple((what, value) for kernel, what, value in attributes if kernel.split("::")[-1] in known),
                    definitions,
                    aliases,
                )
            )
    found.sort(key=lambda launch: (launch.place.line, launch.place.column))
    return tuple(found)


def _helped(
    reader: _Reader,
    functions: Sequence[Declaration],
    inside: Declaration,
    launch: _Launch,
    scope: tuple[_Named, _Named],
    attributes: Sequence[tuple[str, str, SourceExpression]],
) -> list[HostLaunch]:
    """The launches that a helper makes for its callers: each with what the caller gives for the helper's parameters."""
    name, template_arguments, configuration, arguments, start = launch
    found = []
    for call in () if template_arguments else forwarded(functions, inside, start, name):
        pointers = _kernel_pointers(reader, call.caller.body)
        operand = _kernel_operand(call.kernel)
        if operand is None:
            continue
        kernel, given = operand[0], reader.expressions(operand[1])
        if kernel in pointers and not given:
            kernel, given = pointers[kernel]
        values = {one: text for one, tokens in call.values.items() if (text := reader.expression(tokens)) is not None}
        filled = [None if one is None else _replaced(one, values) for one in configuration]
        grid, block, shared, stream = (*filled, None, None, None, None)[:4]
        passed: list[SourceExpression] = []
        for one in arguments:
            if call.pack and re.search(rf"\b{call.pack}\b", one.text) and one.text.endswith("..."):
                passed += reader.expressions(call.rest)
            else:
                passed.append(_replaced(one, values))
        local = {one: _replaced(text, values) for one, text in scope[0]}
        local = {one: text for one, text in local.items() if text.text != one}
        own = [*local.items(), *(pair for pair in _definitions(reader, call.caller.body) if pair[0] not in local)]
        known = {name.split("::")[-1], kernel.split("::")[-1]}
        found.append(
            HostLaunch(
                kernel,
                given,
                grid,
                block,
                shared,
                stream,
                tuple(passed),
                reader.place(call.at),
                call.caller.qualified_name,
                tuple((what, value) for one, what, value in attributes if one.split("::")[-1] in known),
                tuple(own),
                (*scope[1], *_aliases(reader, call.caller.body)),
            )
        )
    return found


def _replaced(expression: SourceExpression, values: Mapping[str, SourceExpression]) -> SourceExpression:
    """An expression with a helper's parameters replaced by what a call gives for them."""

    def value(match: re.Match[str]) -> str:
        text = values[match[0]].text if match[0] in values else match[0]
        return f"({text})" if re.search(r"[^\w.:]", text) and match[0] != expression.text else text

    return replace(expression, text=re.sub(r"(?<![\w.>:])[A-Za-z_]\w*", value, expression.text))


def _functions(scope: Iterable[Declaration]) -> Iterable[Declaration]:
    for declaration in scope:
        if declaration.kind == "class":
            yield from _functions(declaration.members)
        elif declaration.body:
            yield declaration


def _adjacent(tokens: Sequence[Token], index: int, letters: str) -> bool:
    """Whether the tokens at `index` spell `letters` with no blank between."""
    part = tokens[index : index + len(letters)]
    if len(part) < len(letters):
        return False
    return all(token.text == letter for token, letter in zip(part, letters, strict=True)) and (
        part[-1].end - part[0].start == len(letters)
    )


_Named: TypeAlias = tuple[tuple[str, SourceExpression], ...]
_Launch: TypeAlias = tuple[
    str,
    tuple[SourceExpression, ...],
    tuple[SourceExpression | None, ...],
    tuple[SourceExpression, ...],
    int,
]


def _chevrons(reader: _Reader, tokens: Sequence[Token]) -> list[_Launch]:
    found: list[_Launch] = []
    for index in range(1, len(tokens)):
        if tokens[index].text != "<" or not _adjacent(tokens, index, "<<<"):
            continue
        name_start, template_arguments = _name_before(tokens, index)
        if name_start is None:
            continue
        end = _chevron_end(tokens, index + 3)
        if end is None or end + 3 >= len(tokens) or tokens[end + 3].text != "(":
            continue
        close = closing(tokens, end + 3)
        name_end = index if template_arguments is None else template_arguments[0] - 1
        name = "".join(token.text for token in tokens[name_start:name_end]).lstrip(":")
        inner = (
            [] if template_arguments is None else split_arguments(tokens[template_arguments[0] : template_arguments[1]])
        )
        found.append(
            (
                name,
                reader.expressions(inner),
                tuple(reader.expression(part) for part in split_arguments(tokens[index + 3 : end])),
                reader.expressions(split_arguments(tokens[end + 4 : close])),
                tokens[name_start].start,
            )
        )
    return found


def _chevron_end(tokens: Sequence[Token], start: int) -> int | None:
    index = start
    while index < len(tokens):
        text = tokens[index].text
        if text in ("(", "[", "{"):
            index = closing(tokens, index)
        elif (
            text == ">"
            and _adjacent(tokens, index, ">>>")
            and index + 3 < len(tokens)
            and tokens[index + 3].text == "("
        ):
            return index
        elif text == ";":
            return None
        index += 1
    return None


def _name_before(tokens: Sequence[Token], index: int) -> tuple[int | None, tuple[int, int] | None]:
    """Start of the name before `<<<`, and the token range inside its template argument list, if any."""
    position, arguments = index - 1, None
    if tokens[position].text == ">":
        start = _angle_open(tokens, position)
        if start <= 0:
            return None, None
        arguments, position = (start + 1, position), start - 1
    if position < 0 or tokens[position].kind != "id":
        return None, None
    while position >= 2 and tokens[position - 1].text == "::" and tokens[position - 2].kind == "id":
        position -= 2
    return position, arguments


def _angle_open(tokens: Sequence[Token], end: int) -> int:
    """Index of the `<` that the `>` at `end` closes, or -1."""
    for start in range(end - 1, max(end - 200, 0), -1):
        if tokens[start].text == "<" and _angle_close(tokens, start) == end:
            return start
        if tokens[start].text in (";", "{", "}"):
            break
    return -1


def _angle_close(tokens: Sequence[Token], start: int) -> int:
    """Index of the `>` that closes the template argument list opened by `<` at `start`, or -1 if it is no such list."""
    if start == 0 or tokens[start - 1].kind != "id" or _adjacent(tokens, start, "<<"):
        return -1
    depth, index = 0, start
    while index < len(tokens):
        text = tokens[index].text
        if text == "(":
            index = closing(tokens, index)
        elif text in (";", "{", "}", ")", "&&", "="):
            return -1
        else:
            depth += (text == "<") - (text == ">")
            if depth == 0:
                return index
        index += 1
    return -1


def split_arguments(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """The parts of a list between commas that stand outside brackets and template argument lists."""
    parts: list[Sequence[Token]] = []
    start, index = 0, 0
    while index < len(tokens):
        text = tokens[index].text
        if text in ("(", "[", "{"):
            index = min(closing(tokens, index), len(tokens) - 1)
        elif text == "<":
            index = max(_angle_close(tokens, index), index)
        elif text == ",":
            parts.append(tokens[start:index])
            start = index + 1
        index += 1
    parts.append(tokens[start:])
    return [part for part in parts if part]


def _kernel_operand(tokens: Sequence[Token]) -> tuple[str, Sequence[Sequence[Token]], int] | None:
    """Name, template arguments and offset of a kernel passed as a value: `(const void *)&ns::attn<64>`."""
    index = 0
    while index < len(tokens):
        text = tokens[index].text
        if text in ("reinterpret_cast", "static_cast") and index + 1 < len(tokens):
            depth = 0
            while index < len(tokens):
                depth += (tokens[index].text == "<") - (tokens[index].text == ">")
                index += 1
                if depth == 0 and tokens[index - 1].text == ">":
                    break
            continue
        if text == "(":
            close = closing(tokens, index)
            inner = [token.text for token in tokens[index + 1 : close]]
            index = close + 1 if {"void", "*"} & set(inner) else index + 1
            continue
        if tokens[index].kind == "id":
            break
        index += 1
    start = index
    while index + 2 < len(tokens) and tokens[index + 1].text == "::" and tokens[index + 2].kind == "id":
        index += 2
    if index >= len(tokens):
        return None
    name = "".join(token.text for token in tokens[start : index + 1])
    inner_groups: Sequence[Sequence[Token]] = ()
    if index + 1 < len(tokens) and tokens[index + 1].text == "<":
        last = max((i for i, token in enumerate(tokens) if token.text == ">"), default=index + 1)
        inner_groups = split_arguments(tokens[index + 2 : last])
    return name, inner_groups, tokens[start].start


def _calls(tokens: Sequence[Token], names: frozenset[str]) -> Iterable[tuple[str, list[Sequence[Token]]]]:
    for index, token in enumerate(tokens):
        if token.kind == "id" and token.text in names and index + 1 < len(tokens) and tokens[index + 1].text == "(":
            close = closing(tokens, index + 1)
            yield token.text, split_arguments(tokens[index + 2 : close])


_LAUNCH_CALLS = frozenset(
    {"cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaLaunchKernelEx", "cudaLaunchKernelExC"}
)


def _api_launches(reader: _Reader, tokens: Sequence[Token]) -> list[_Launch]:
    found: list[_Launch] = []
    for call, parts in _calls(tokens, _LAUNCH_CALLS):
        extended = call.startswith("cudaLaunchKernelEx")
        position = 1 if extended else 0
        if len(parts) <= position:
            continue
        kernel = _kernel_operand(parts[position])
        if kernel is None:
            continue
        name, template_arguments, start = kernel
        configuration: tuple[SourceExpression | None, ...] = ()
        arguments: tuple[SourceExpression, ...] = ()
        if extended:
            configuration = tuple(reader.expression(part) for part in launch_configuration(tokens, parts[0]))
            by_address = call == "cudaLaunchKernelExC" and len(parts) > 2
            arguments = reader.expressions(_addressed(tokens, parts[2]) if by_address else parts[2:])
        else:
            # cudaLaunchKernel(func, gridDim, blockDim, args, sharedMem, stream)
            values = [reader.expression(part) for part in parts[1:]]
            configuration = tuple(values[:2] + values[3:5])
            arguments = reader.expressions(_addressed(tokens, parts[3])) if len(parts) > 3 else ()
        found.append((name, reader.expressions(template_arguments), configuration, arguments, start))
    return found


def _addressed(tokens: Sequence[Token], operand: Sequence[Token]) -> list[Sequence[Token]]:
    """What `void *args[] = {&a, &b};` points to, for the `args` that is passed; empty if that is not to be seen."""
    name = operand[0].text if operand else ""
    for index in range(len(tokens) - 4):
        if [token.text for token in tokens[index : index + 3]] == [name, "[", "]"] and name.isidentifier():
            start = index + 3 + (tokens[index + 3].text == "=")
            if tokens[start].text == "{":
                parts = split_arguments(tokens[start + 1 : closing(tokens, start)])
                values = [[token for token in part if token.text != "&"] for part in parts]
                # A cast, `(void *)&a`, leaves the name last.
                return [part[-1:] if any(token.text == "void" for token in part) else part for part in values]
    return []


def _attributes(reader: _Reader, tokens: Sequence[Token]) -> list[tuple[str, str, SourceExpression]]:
    """(kernel, attribute, value) of each `cudaFuncSetAttribute`."""
    found = []
    for _, parts in _calls(tokens, frozenset({"cudaFuncSetAttribute"})):
        if len(parts) != 3:
            continue
        kernel, value = _kernel_operand(parts[0]), reader.expression(parts[2])
        if kernel is not None and value is not None:
            found.append((kernel[0], parts[1][-1].text, value))
    return found


def _kernel_pointers(reader: _Reader, tokens: Sequence[Token]) -> dict[str, tuple[str, tuple[SourceExpression, ...]]]:
    """`auto kernel = &ns::attn<64>;` in one function body: variable → kernel and its template arguments.

    Other types than auto, `void (*kernel)(…) = …` and a later `kernel = attn<64>;` count, too; the first one holds.
    """
    found: dict[str, tuple[str, tuple[SourceExpression, ...]]] = {}
    for index in range(1, len(tokens) - 2):
        if tokens[index].text != "=" or tokens[index + 1].text == "=":
            continue
        name = tokens[index - 1]
        if name.text == ")":  # the parameters of a pointer to a function
            brackets = (i for i in range(index - 1, 0, -1) if tokens[i].text == "(")
            opened = next((i for i in brackets if closing(tokens, i) == index - 1), index)
            name = tokens[opened - 2] if [t.text for t in tokens[opened - 3 : opened]][0::2] == ["*", ")"] else name
        end = index + 1
        while end < len(tokens) and tokens[end].text not in (";", "(", "{", "["):
            end += 1
        whole = end < len(tokens) and tokens[end].text == ";"
        operand = _kernel_operand(tokens[index + 1 : end]) if whole and name.kind == "id" else None
        declared = index > 1 and (tokens[index - 2].kind == "id" or tokens[index - 1].text == ")")
        if operand is not None and (declared or operand[1]):
            found.setdefault(name.text, (operand[0], reader.expressions(operand[1])))
    return found


_INTEGER_WORDS = frozenset({"int", "size_t", "long", "unsigned", "auto", "dim3", "uint"})
_INTEGER_WORDS |= frozenset({"uint32_t", "uint64_t", "int64_t", "int32_t"})


def _definitions(reader: _Reader, tokens: Sequence[Token]) -> tuple[tuple[str, SourceExpression], ...]:
    """`dim3 grid(a, b), block(c);`, `int n = …, m = …;` in one function body: name → initialiser."""
    found: list[tuple[str, SourceExpression]] = []
    for index in range(1, len(tokens) - 1):
        before = index - 1 - (tokens[index - 1].text == "const")  # `dim3 const grid{…};`
        if tokens[index].kind == "id" and before >= 0 and tokens[before].text in _INTEGER_WORDS:
            end = index
            while end < len(tokens) and tokens[end].text != ";":
                end = closing(tokens, end) + 1 if tokens[end].text in ("(", "[", "{") else end + 1
            for declarator in split_arguments(tokens[index : min(end, len(tokens))]):
                value = _initialiser(reader, declarator, tokens[before].text == "dim3")
                if value is not None:
                    found.append((declarator[0].text, value))
    return tuple(found)


def definitions(text: str, tokens: Sequence[Token]) -> tuple[tuple[str, SourceExpression], ...]:
    """The integers and `dim3`s that a function's body, tokens of `text`, defines: name → initialiser."""
    return _definitions(_Reader(text, "", line_index(text)), tokens)


def _aliases(reader: _Reader, tokens: Sequence[Token]) -> tuple[tuple[str, SourceExpression], ...]:
    """`using T = …;` in one function body: name → type."""
    found: list[tuple[str, SourceExpression]] = []
    for index in range(len(tokens) - 3):
        if tokens[index].text == "using" and tokens[index + 2].text == "=":
            end = index + 3
            while end < len(tokens) and tokens[end].text != ";":
                end += 1
            value = reader.expression(tokens[index + 3 : end])
            if value is not None:
                found.append((tokens[index + 1].text, value))
    return tuple(found)


def _initialiser(reader: _Reader, declarator: Sequence[Token], dimensions: bool) -> SourceExpression | None:
    """The value of `name(a, b)`, `name{a, b}` (of a dim3) or `name = value`."""
    if len(declarator) < 3 or declarator[0].kind != "id":
        return None
    if declarator[1].text == "=":
        return reader.expression(declarator[2:])
    if dimensions and declarator[1].text in ("(", "{") and closing(declarator, 1) == len(declarator) - 1:
        value = reader.expression(declarator[2:-1])
        return None if value is None else SourceExpression(f"dim3({value.text})", value.place)
    return None


def mentioned_instantiations(tokens: Sequence[Token], templates: frozenset[str]) -> list[tuple[str, str]]:
    """(kernel name as written, its template arguments as text) wherever host code writes `kernel<…>`."""
    found: list[tuple[str, str]] = []
    for index, token in enumerate(tokens[:-1]):
        if token.kind != "id" or token.text not in templates or tokens[index + 1].text != "<":
            continue
        end = _angle_close(tokens, index + 1)
        if end < 0:
            continue
        text = " ".join(part.text for part in tokens[index + 2 : end])
        if (token.text, text) not in found:
            found.append((token.text, text))
    return found
