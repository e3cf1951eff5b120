"""Launches by helpers: `launch(attn<64>, grid, block, q, k)`, where a function or lambda launches what it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.compile.declarations import Declaration
from wmmadiag.compile.lexer import Token, closing

_MAX_CALLS = 16


@dataclass(frozen=True, slots=True)
class Forwarded:
    """One call of a helper that launches one of its parameters.

    Attributes:
        kernel: what the call gives for that parameter.
        values: what it gives for the others, or their defaults, by name.
        pack: the name of a parameter pack, "" for none, and what goes into it.
        caller: the function that the call stands in.
        at: its place, an offset.
    """

    kernel: tuple[Token, ...]
    values: Mapping[str, tuple[Token, ...]]
    pack: str
    rest: tuple[tuple[Token, ...], ...]
    caller: Declaration
    at: int


def forwarded(functions: Sequence[Declaration], inside: Declaration, offset: int, name: str) -> Iterator[Forwarded]:
    """The calls that give a kernel to the helper which launches `name` at `offset`.

    Args:
        functions: of the host code.
        inside: the function that the launch stands in.
        offset: of the launch.
        name: of the parameter that is launched.
    """
    helper = _lambda_around(inside.body, offset) or _function(inside)
    if helper is None:
        return
    called, parameters = helper
    names = [_parameter(part) for part in parameters]
    position = next((i for i, (known, _, _) in enumerate(names) if known == name), None)
    if position is None:
        return
    count = 0
    for caller in functions:
        for at, given in _calls(caller.body, called):
            if len(given) <= position or count >= _MAX_CALLS:
                continue
            count += 1
            values = {
                known: tuple(given[i]) if i < len(given) else default
                for i, (known, default, pack) in enumerate(names)
                if i != position and not pack and (i < len(given) or default)
            }
            pack = next(((i, known) for i, (known, _, is_pack) in enumerate(names) if is_pack), None)
            rest = tuple(tuple(part) for part in given[pack[0] :]) if pack is not None else ()
            yield Forwarded(tuple(given[position]), values, pack[1] if pack else "", rest, caller, at)


def _parts(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    from wmmadiag.compile.host_code import split_arguments

    return split_arguments(tokens)


def _parameter(part: Sequence[Token]) -> tuple[str, tuple[Token, ...], bool]:
    """Name, default value and whether it is a pack, of one declared parameter."""
    texts = [token.text for token in part]
    end = texts.index("=") if "=" in texts else len(part)
    name = next((token.text for token in reversed(part[:end]) if token.kind == "id"), "")
    if "(" in texts[:end]:  # void (*kernel)(const half *, int)
        opened = texts.index("(")
        name = next((token.text for token in part[opened : closing(part, opened)] if token.kind == "id"), name)
    return name, tuple(part[end + 1 :]), texts[:end].count(".") >= 3


def _function(inside: Declaration) -> tuple[str, list[Sequence[Token]]] | None:
    head = inside.head
    for index in range(1, len(head)):
        if head[index].text == "(" and head[index - 1].text == inside.name:
            return inside.name, _parts(head[index + 1 : closing(head, index)])
    return None


def _lambda_around(body: Sequence[Token], offset: int) -> tuple[str, list[Sequence[Token]]] | None:
    """`name = [&](parameters) {…}` around an offset, the innermost one."""
    found = None
    for index in range(2, len(body) - 2):
        if body[index].text != "[" or body[index - 1].text != "=" or body[index - 2].kind != "id":
            continue
        opened = closing(body, index) + 1
        if opened >= len(body) or body[opened].text != "(":
            continue
        closed = closing(body, opened)
        brace = next((i for i in range(closed, min(closed + 8, len(body))) if body[i].text == "{"), None)
        if brace is None:
            continue
        end = min(closing(body, brace), len(body) - 1)
        if body[brace].start < offset < body[end].start:
            found = body[index - 2].text, _parts(body[opened + 1 : closed])
    return found


def _calls(body: Sequence[Token], name: str) -> Iterator[tuple[int, list[Sequence[Token]]]]:
    """(offset, arguments) of each `name(…)` and `name<…>(…)`."""
    for index, token in enumerate(body[:-1]):
        if token.text != name:
            continue
        after = index + 1
        if body[after].text == "<":
            depth = 0
            while after < len(body):
                depth += (body[after].text == "<") - (body[after].text == ">")
                after += 1
                if depth == 0 or body[after - 1].text in (";", "{"):
                    break
        if after < len(body) and body[after].text == "(":
            yield token.start, _parts(body[after + 1 : closing(body, after)])
