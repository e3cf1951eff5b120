"""Kernels that macros define, or begin: they have no tree, so they are found by their brackets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.lexical import Macro, joined, macros_at_line_starts, spans
from wmmadiag.csource.tree import Source

MARKER = "wmmadiag_kernel_of_a_macro"
"""A variable of the body of each kernel that a macro defines: its symbol names the kernel."""
_TRAP = "{ __builtin_trap(); }"
_REST = rb"(?:[^\\\n]|\\\r?\n|\\.)*"
_DEFINES = rb"^[ \t]*#[ \t]*define[ \t]+(\w+)\((?:[^\\\n]|\\\r?\n|\\.)*?%s"
_BEGINS = re.compile(_DEFINES % rb"__global__" + _REST, re.MULTILINE)
_ROUNDS = 4
_BEHIND = re.compile(rb"\s*(?:[A-Za-z_]\w*)?\s*(?=\()")
_HEADS = re.compile(rb"__global__|__device__")
_DEFINITION = re.compile(rb"#[ \t]*define\b")
_NAME_OF_PARAMETER = re.compile(rb"(?<!\w)([A-Za-z_]\w*(?:\s*##\s*\w+)*)\s*(?:\[[^\]]*\]\s*)?\Z")
_NAME_OF_POINTER = re.compile(rb"\(\s*[*&]\s*([A-Za-z_]\w*)\s*\)")
"""`float (*rows)[4]`."""


def handed_over(name: str) -> str:
    """A parameter as a stub hands it over; of one by reference that is the address that it holds."""
    return f"::wmmadiag_host::Argument<decltype({name})>(__builtin_addressof({name})).address()"


def stub_call(names: list[str]) -> str:
    listed = ", ".join([*names, "nullptr"])
    return f"::wmmadiag_stub(::wmmadiag_host::addresses({{{listed}}}));"


def kernel_heads(files: Iterable[bytes]) -> dict[str, Macro]:
    """Macros that stand for a kernel's head, behind whose uses the body is written, or the name and parameters, too."""
    texts = list(files)
    heads: dict[str, Macro] = {}
    begins = _BEGINS
    for _ in range(_ROUNDS):
        found = []
        for data in texts:
            names = {one[1].decode() for one in begins.finditer(data) if b"{" not in one[0]} - heads.keys()
            if names:
                found.append(macros_at_line_starts(data, names))
        new = {
            name: replace(one, body=_through(one.body, heads))
            for name, one in joined(found).items()
            if one.parameters is not None and not set("{};") & set(one.body)
        }
        new = {name: one for name, one in new.items() if "__global__" in one.body}
        heads |= new
        if not new:
            break
        # Macros that stand for one of them.
        begins = re.compile(
            _DEFINES % rb"\b(?:" + b"|".join(name.encode() for name in new) + rb")\(" + _REST, re.MULTILINE
        )
    return heads


def _through(body: str, heads: Mapping[str, Macro]) -> str:
    """A body with the first of `heads` that it uses put in."""
    for use in re.finditer(r"\b(\w+)\s*\(", body):
        if use[1] in heads:
            closed = _closed(body.encode(), len(body[: use.end() - 1].encode()), len(body.encode()))
            if closed is not None:
                inner = body.encode()[len(body[: use.end()].encode()) : closed - 1].decode()
                return body[: use.start()] + _expanded(heads[use[1]], inner) + body.encode()[closed:].decode()
    return body


def begun_by_macros(source: Source, heads: Mapping[str, Macro]) -> Iterator[ByteEdit]:
    """Bodies behind the uses of `kernel_heads`."""
    if not heads:
        return
    code = readable(source)
    used = re.compile(rb"(?<![\w#])(" + b"|".join(re.escape(name.encode()) for name in heads) + rb")\s*(?=\()")
    for use in used.finditer(code):
        closed = _closed(code, use.end(), len(code))
        if closed is None:
            continue
        head = _expanded(heads[use[1].decode()], code[use.end() + 1 : closed - 1].decode("utf-8", "replace")).encode()
        if (own := _BEHIND.match(code, closed)) is not None:  # KERNEL(name)(float* x) { … }
            closed = _closed(code, own.end(), len(code))
            head = code[own.end() : closed]
        begin = re.compile(rb"\s*\{").match(code, closed) if closed is not None else None
        end = _closed(code, begin.end() - 1, len(code)) if begin is not None else None
        parameters = _last_list(head)
        names = _parameter_names(head[parameters[0] + 1 : parameters[1] - 1]) if parameters is not None else None
        if begin is None or end is None or names is None:
            continue
        lines = "\n" * source.data.count(b"\n", begin.end() - 1, end)
        yield ByteEdit(begin.end() - 1, end, _marked_stub(names) + lines)


def _expanded(macro: Macro, text: str) -> str:
    """A use of a macro with its arguments put in; no macros in them are looked at."""
    arguments, depth, begin = list[str](), 0, 0
    for at, letter in enumerate(text + ","):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            arguments.append(text[begin:at].strip())
            begin = at + 1
    named = [one for one in macro.parameters or () if one != "..."]
    given = dict(zip(named, arguments, strict=False)) | {"__VA_ARGS__": ", ".join(arguments[len(named) :])}
    put = re.sub(r"[A-Za-z_]\w*", lambda word: given.get(word[0], word[0]), macro.body)
    return re.sub(r"\s*##\s*", "", put)


def _last_list(head: bytes) -> tuple[int, int] | None:
    """(begin, end) of the parentheses at the end."""
    end = len(head.rstrip())
    at = head.find(b"(")
    while at >= 0:
        closed = _closed(head, at, end)
        if closed is None or closed == end:
            return None if closed is None else (at, closed)
        at = head.find(b"(", closed)
    return None


def _marked_stub(names: list[str]) -> str:
    marked = f'static char {MARKER}; asm volatile("" : : "g"(&{MARKER}));'
    return f"{{ {marked} {stub_call([handed_over(one) for one in names])} }}"


def macro_bodies(source: Source) -> Iterator[ByteEdit]:
    """Kernels and device functions whose whole definition is a macro's."""
    code = readable(source)
    for span in spans(source.data):
        if span.kind != "directive" or not _DEFINITION.match(source.data, span.start):
            continue
        at = span.start
        while (head := _HEADS.search(code, at, span.end)) is not None:
            at = head.end()
            parameters, body = _signature(code, head.end(), span.end)
            if parameters is None or body is None:
                continue
            begin = max(code.rfind(b"}", span.start, head.start()), code.rfind(b";", span.start, head.start()))
            words = code[max(begin, span.start) : parameters[0]]
            names = _parameter_names(code[parameters[0] + 1 : parameters[1] - 1])
            at = body[1]
            text = ""
            if b"__global__" in words and names is not None:
                text = _marked_stub(names)
            elif b"__global__" not in words and b"__host__" not in words and b"constexpr" not in words:
                text = _TRAP
            if text:
                yield ByteEdit(body[0], body[1], text + "\\\n" * source.data.count(b"\n", *body))


def _signature(code: bytes, at: int, end: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """(begin, end) of the last parentheses before a function's body, and of that body; None: it is no definition."""
    parameters = None
    while at < end:
        letter = code[at : at + 1]
        if letter == b"(":
            closed = _closed(code, at, end)
            if closed is None:
                return None, None
            parameters, at = (at, closed), closed
            continue
        if letter == b"{":
            closed = _closed(code, at, end)
            return parameters, None if closed is None else (at, closed)
        if letter in b";=}":
            return None, None
        at += 1
    return None, None


def _closed(code: bytes, at: int, end: int) -> int | None:
    """The offset behind the bracket that closes the one at `at`."""
    depth = 0
    for offset in range(at, end):
        depth += (code[offset] in b"([{") - (code[offset] in b")]}")
        if depth == 0:
            return offset + 1
    return None


def _parameter_names(text: bytes) -> list[str] | None:
    """The names in a list of parameters; None where one has none, or they are a pack."""
    text = text.replace(b"\\\n", b" ").strip()
    if not text or text == b"void":
        return []
    parts, depth, begin = [], 0, 0
    for offset, letter in enumerate(text + b","):
        depth += (letter in b"([{<") - (letter in b")]}>")
        if letter == ord(",") and depth == 0:
            parts.append(text[begin:offset].partition(b"=")[0].strip())
            begin = offset + 1
    names = []
    for one in parts:
        found = _NAME_OF_POINTER.search(one) or _NAME_OF_PARAMETER.search(one)
        if found is None or b"..." in one or found.start() == 0:
            return None
        names.append(found[1].decode())
    return names


def readable(source: Source) -> bytes:
    """The code with comments and literals blanked, directives left: a macro's body may launch."""
    text = bytearray(source.data)
    for span in spans(source.data):
        if span.kind == "directive":
            inner = source.data[span.start : span.end]
            for part in spans(inner.replace(b"#", b" ")):
                if part.kind != "directive":
                    _blank(text, span.start + part.start, span.start + part.end)
        else:
            _blank(text, span.start, span.end)
    return bytes(text)


def _blank(text: bytearray, start: int, end: int) -> None:
    text[start:end] = re.sub(rb"[^\r\n]", b" ", bytes(text[start:end]))
