"""Barriers and the steps of asynchronous copies, in each form that they are written in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.source.model import Barrier, BarrierKind, Call, SourceModel, Span, Statement, Token

# CUDA C++ Programming Guide, "Synchronization Functions", "Warp Synchronization", "Asynchronous Data Copies".
_CALLS: dict[str, tuple[BarrierKind, str]] = {
    "__syncthreads": ("block", "builtin"),
    "__syncthreads_or": ("block", "builtin"),
    "__syncthreads_and": ("block", "builtin"),
    "__syncthreads_count": ("block", "builtin"),
    "__syncwarp": ("warp", "builtin"),
    "__pipeline_commit": ("commit", "pipeline"),
    "__pipeline_wait_prior": ("wait", "pipeline"),
    "producer_commit": ("commit", "pipeline"),
    "consumer_wait": ("wait", "pipeline"),
    "pipeline_consumer_wait_prior": ("wait", "pipeline"),
    "cp_async_fence": ("commit", "builtin"),
    "cp_async_wait": ("wait", "builtin"),
}
# PTX ISA: `bar.sync`/`barrier.sync`, `bar.warp.sync`, `cp.async.commit_group`, `.wait_group N`, `.wait_all`.
_ASM: tuple[tuple[re.Pattern[str], BarrierKind], ...] = (
    (re.compile(r"cp\.async\.commit_group"), "commit"),
    (re.compile(r"cp\.async\.wait_(?:group(?:\s+(?P<count>\d+))?|all)"), "wait"),
    (re.compile(r"\bbar(?:rier)?\.warp\.sync"), "warp"),
    (re.compile(r"\bbar(?:rier(?:\.cta)?)?\.sync"), "block"),
)


def barriers(model: SourceModel, wrappers: dict[str, BarrierKind]) -> Iterator[Barrier]:
    """All barriers. `wrappers`: functions of the source whose whole body is one such step."""
    for call in model.calls:
        known = _CALLS.get(call.name)
        if known is None and call.name in wrappers:
            known = (wrappers[call.name], "call")
        if call.name == "sync" and _group(model, call):
            known = ("block", "builtin")
        if known is not None:
            count = next((a for a in call.arguments if a), None) if known[0] == "wait" else None
            if known[0] == "wait" and count is None and call.template:
                at = next(i for i in range(call.first, call.last) if model.tokens[i].text == "<")
                close = next((i for i in range(at, call.last) if model.tokens[i].text == ">"), at)
                count = model.span(at + 1, close) or None
            yield Barrier(known[0], known[1], count, call.start, call.end, call.line, model.statement_at(call.start))
    for index, statement in enumerate(model.statements):
        if statement.kind == "expression" and model.tokens[statement.first].text in ("asm", "__asm__"):
            yield from _assembly(model, index, statement)


def _group(model: SourceModel, call: Call) -> bool:
    """`block.sync()` or `cg::sync(block)` of a cooperative group of the block."""
    before = call.first - 2
    name = call.arguments[0].text if call.arguments else model.tokens[before].text if before >= 0 else ""
    variable = model.variable(name, call.start)
    return variable is not None and (
        "thread_block" in variable.type
        or (variable.initial is not None and "this_thread_block" in variable.initial.text)
    )


def _assembly(model: SourceModel, index: int, statement: Statement) -> Iterator[Barrier]:
    strings = [t for t in model.tokens[statement.first : statement.last] if t.kind == "str"]
    for pattern, kind in _ASM:
        for token in strings:
            match = pattern.search(token.text)
            if match is None:
                continue
            count = None
            if kind == "wait" and match.groupdict().get("count"):
                count = _inside(token, match.start("count"), match.end("count"), model)
            yield Barrier(kind, "asm", count, statement.start, statement.end, statement.line, index)
            return


def _inside(token: Token, start: int, end: int, model: SourceModel) -> Span:
    """A piece of a string literal: it has a place, but no tokens."""
    at = token.offset + start
    first = model.token_at(token.offset)
    return Span(at, token.offset + end, token.line, token.text[start:end], first, first)


def wrapper_kinds(tokens: Sequence[Token], bodies: dict[str, tuple[int, int]]) -> dict[str, BarrierKind]:
    """Functions whose body does nothing but one step of an asynchronous copy or a barrier, by name."""
    found: dict[str, BarrierKind] = {}
    for name, (first, last) in bodies.items():
        body = tokens[first:last]
        if sum(token.text == ";" for token in body) != 1:
            continue
        text = " ".join(token.text for token in body)
        kind = next((kind for pattern, kind in _ASM if pattern.search(text)), None)
        if kind is None:
            kind = next((known[0] for word, known in _CALLS.items() if word in text), None)
        if kind is not None:
            found[name] = kind
    return found


_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^()\n]*)\)((?:\\\r?\n|[^\n])*)", re.M)
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')


def macro_kinds(text: str) -> dict[str, BarrierKind]:
    """Function-like macros that stand for one step of an asynchronous copy or one barrier, by name."""
    found: dict[str, BarrierKind] = {}
    for match in _MACRO.finditer(text):
        name, body = match[1], match[3]
        if len([part for part in _STRING.sub('""', body).split(";") if part.strip(" \t\r\n\\")]) != 1:
            continue
        kind = next((kind for pattern, kind in _ASM if pattern.search(body)), None)
        if kind is None:
            kind = next((known[0] for word, known in _CALLS.items() if re.search(rf"\b{word}\b", body)), None)
        if kind is not None:
            found[name] = kind
    return found
