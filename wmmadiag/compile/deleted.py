"""WMMA calls that the optimiser took out of the code.

`wmma` loads and stores are defined on shared and global memory only. On a thread-local array an optimising compiler
drops the call with all that depends on it, or leaves a bare `trap`; older ones say nothing at all. To tell that from
code that is merely dead, the source is compiled once more with a marker before each call: an `asm volatile` comment,
which stays exactly where the call is reached, with the compiler's own answer to "is this pointer local?". A call whose
marker is there and whose instruction is not was deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.compile.model import CompileNote
from wmmadiag.compile.ptx_scan import ScannedInstruction, instructions
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.nodes import Node, arguments, descendants, field
from wmmadiag.csource.tree import Source, parse
from wmmadiag.place import Place

# Call → (opcode that it becomes, position of a fragment among its arguments, and of its pointer or None).
_CALLS: Mapping[str, tuple[str, int, int | None]] = {
    "store_matrix_sync": ("wmma.store", 1, 0),
    "load_matrix_sync": ("wmma.load", 0, 1),
    "mma_sync": ("wmma.mma", 0, None),
}
PROBE_HEADER = """
namespace nvcuda { namespace wmma {
template <typename _WU, int _Wm, int _Wn, int _Wk, typename _WT, typename _WL> class fragment;
} }
template <class _WF> struct wmmadiag_is_fragment { enum { yes = 0 }; };
template <class _WF> struct wmmadiag_is_fragment<const _WF> : wmmadiag_is_fragment<_WF> {};
template <class _WF> struct wmmadiag_is_fragment<_WF &> : wmmadiag_is_fragment<_WF> {};
template <class _WF> struct wmmadiag_is_fragment<_WF &&> : wmmadiag_is_fragment<_WF> {};
template <typename _WU, int _Wm, int _Wn, int _Wk, typename _WT, typename _WL>
struct wmmadiag_is_fragment<nvcuda::wmma::fragment<_WU, _Wm, _Wn, _Wk, _WT, _WL> > { enum { yes = 1 }; };
template <int _Wi, class _WF> __device__ __forceinline__ void wmmadiag_mark(const volatile void *_Wp) {
  if (!wmmadiag_is_fragment<_WF>::yes) return;
  asm volatile("// wmmadiag reached %0" ::"n"(_Wi));
  if (__isLocal((const void *)_Wp)) asm volatile("// wmmadiag local %0" ::"n"(_Wi));
  else asm volatile("// wmmadiag other %0" ::"n"(_Wi));
}
"""
_WORDS = tuple(call.encode() for call in _CALLS)
_AROUND_MACRO = (b"void f() {", b";}")
_MARK = re.compile(r"//\s*wmmadiag (reached|local|other) (\d+)")


@dataclass(frozen=True, slots=True)
class _ReachedCall:
    """A call that the optimised code reaches: which, where, in which function, and what its pointer is."""

    call: str
    place: Place
    function: str
    local: bool
    trapped: bool


def compile_notes(
    compiled: Sequence[tuple[Source, bytes]],
    ptx: str,
    log: str,
    recompile: Callable[[Sequence[Sequence[ByteEdit]]], str | None],
) -> tuple[CompileNote, ...]:
    """Notes on deleted WMMA calls, for optimised PTX.

    Args:
        compiled: the user's own files, each with what of it was compiled, byte for byte at its place.
        recompile: the PTX of those texts with edits to each, `PROBE_HEADER` read first; None if it does not compile.
    """
    code = list(instructions(ptx))
    calls = [_Calls(source, text) for source, text in compiled if any(word in text for word in _WORDS)]
    if not calls or not ("local memory" in log or _suspicious(calls, code)):
        return ()
    sites: list[str] = []
    marks = {id(one.source): marked(one, sites) for one in calls}
    probed = recompile([marks.get(id(source), ()) for source, _ in compiled]) if sites else None
    # A call that is not what it looks like (an overload of the user's own) does not compile: nothing is said then.
    reached = _read_marks(probed, sites) if probed is not None else []
    trapped = {item.function for item in code if item.opcode == "trap"}
    excused = trapped | {call.function for call in reached if call.local}
    return tuple(dict.fromkeys([*_deleted(reached, code), *_unused(reached, code, excused)]))


@dataclass(frozen=True, slots=True)
class _Calls:
    """A source, and what of it was compiled."""

    source: Source
    text: bytes

    def written(self) -> Iterator[tuple[str, Node]]:
        """The WMMA calls in its code."""
        for node in descendants(self.source.root, "call_expression"):
            name = _called(self.source, node)
            same = self.text[node.start_byte : node.end_byte] == self.source.data[node.start_byte : node.end_byte]
            if name in _CALLS and same:
                yield name, node

    def in_macros(self) -> Iterator[tuple[str, Node, Source, int]]:
        """The WMMA calls in bodies of its macros: (call, node, the body as a source, what to add to its offsets)."""
        for node in descendants(self.source.root, "preproc_def", "preproc_function_def"):
            value = field(node, "value")
            if value is None or not any(word in self.source.data[value.start_byte : value.end_byte] for word in _WORDS):
                continue
            before, after = _AROUND_MACRO
            body = parse(
                before + self.source.data[value.start_byte : value.end_byte] + after, macros=self.source.code.macros
            )
            for inner in descendants(body.root, "call_expression"):
                name = _called(body, inner)
                if name in _CALLS:
                    yield name, inner, body, value.start_byte - len(before)


def _called(source: Source, call: Node) -> str:
    """The plain name of the function that is called."""
    one = field(call, "function")
    while one is not None and one.type in ("qualified_identifier", "template_function"):
        one = field(one, "name")
    return source.text(one) if one is not None and one.type == "identifier" else ""


def _suspicious(calls: Iterable[_Calls], code: Sequence[ScannedInstruction]) -> bool:
    """Whether some call in the source shows no instruction on its line; a second compilation is worth it only then."""
    lines = {(frame.line, _kind(item.opcode)) for item in code if item.place for frame in item.place.frames()}
    for one in calls:
        if any(True for _ in one.in_macros()):
            return True
        for name, node in one.written():
            at = field(node, "function") or node
            if (one.source.place_at(at.end_byte).line, _CALLS[name][0]) not in lines:
                return True
    return False


def _kind(opcode: str) -> str:
    return ".".join(opcode.split(".")[:2])


def marked(calls: _Calls, sites: list[str]) -> list[ByteEdit]:
    """The edits that make each WMMA call `(wmmadiag_mark<id, …>(pointer), call(…))`; appends to `sites`."""
    edits: list[ByteEdit] = []
    for name, node in calls.written():
        edits += _mark(calls.source, name, node, 0, sites)
    for name, node, body, shift in calls.in_macros():
        edits += _mark(body, name, node, shift, sites)
    return edits


def _mark(source: Source, call: str, node: Node, shift: int, sites: list[str]) -> list[ByteEdit]:
    given = arguments(node)
    _, fragment_at, pointer_at = _CALLS[call]
    if len(given) <= max(fragment_at, pointer_at or 0):
        return []
    texts = [source.words(one).replace("\\ ", " ") for one in given]
    pointer = texts[pointer_at] if pointer_at is not None else "nullptr"
    mark = f"(wmmadiag_mark<{len(sites)}, decltype({texts[fragment_at]})>({pointer}), "
    sites.append(call)
    start, end = node.start_byte + shift, node.end_byte + shift
    return [ByteEdit(start, start, mark), ByteEdit(end, end, ")")]


def _read_marks(ptx: str, sites: Sequence[str]) -> list[_ReachedCall]:
    """What the markers in the PTX say. A marker's place is that of the call: its own frame is left out."""
    found: list[_ReachedCall] = []
    lines = ptx.split("\n")
    # The scan takes comments for blank; as an instruction each keeps its place and order.
    scannable = "\n".join(_MARK.sub(lambda m: f"wmmadiag.{m[1]}.n{m[2]};", line) for line in lines)
    code = list(instructions(scannable))
    kinds: dict[tuple[str, int], set[str]] = {}
    for item in code:
        match = re.match(r"wmmadiag\.(\w+)\.n(\d+)", item.opcode)
        if match:
            kinds.setdefault((item.function, int(match[2])), set()).add(match[1])
    for index, item in enumerate(code):
        match = re.match(r"wmmadiag\.reached\.n(\d+)", item.opcode)
        if not match or item.place is None:
            continue
        place = item.place.inlined_at or item.place
        rest = [later.opcode for later in code[index + 1 : index + 4] if not later.opcode.startswith("wmmadiag.")]
        local = "local" in kinds[item.function, int(match[1])] and "other" not in kinds[item.function, int(match[1])]
        found.append(_ReachedCall(sites[int(match[1])], place, item.function, local, rest[:1] == ["trap"]))
    return found


def _at(place: Place) -> tuple[str, int]:
    return place.file, place.line


def _has(code: Sequence[ScannedInstruction], call: _ReachedCall) -> bool:
    """Whether the code holds the call's instruction on its line, or one whose line the optimiser lost."""
    kind = _CALLS[call.call][0]
    # Another instantiation of the same template may hold the call on the same line. A function of internal linkage has
    # another name in each compilation, though.
    same_name = any(item.function == call.function for item in code)
    for item in code:
        if _kind(item.opcode) != kind or (same_name and item.function != call.function):
            continue
        frames = list(item.place.frames()) if item.place else []
        if not frames or any(frame.line == 0 or _at(frame) == _at(call.place) for frame in frames):
            return True
    return False


def _deleted(reached: Sequence[_ReachedCall], code: Sequence[ScannedInstruction]) -> Iterator[CompileNote]:
    for call in reached:
        if not call.local or _has(code, call):
            continue
        store = call.call == "store_matrix_sync"
        fate = (
            "the compiler put a trap in its place, so the launch dies there"
            if call.trapped
            else "the compiler left it out, with everything that depends on it"
        )
        yield CompileNote(
            "deleted-wmma-store" if store else "deleted-wmma-load",
            f"{call.call} on line {call.place.line} is not in the compiled code: it "
            f"{'stores to' if store else 'loads from'} a thread-local array, which wmma does not define"
            f" (the 32 lanes of a warp share one tile, in shared or global memory); {fate}",
            call.place,
        )


def _unused(
    reached: Sequence[_ReachedCall], code: Sequence[ScannedInstruction], excused: set[str]
) -> list[CompileNote]:
    return [
        CompileNote(
            "unused-wmma-call",
            f"{call.call} on line {call.place.line} is not in the compiled code: nothing uses its result,"
            " or an equal call before it provides it",
            call.place,
        )
        for call in reached
        if not call.local and call.function not in excused and not _has(code, call)
    ]
