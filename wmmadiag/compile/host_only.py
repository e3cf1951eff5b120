"""Which declarations of the user's files are host code, told from the syntax tree.

NVRTC takes no host code. Under nvcc, device code can use nothing of a function or variable that carries no execution or
memory space, constants and `constexpr` apart; so a function that carries none, is no `constexpr`, and is named by
device code in unevaluated operands at most, is surely host code. What else nobody knows is left to the compiler, which
says what it cannot take. Where device code does not even name it, and it names what these files do not declare
(`std::string`), it is not worth asking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wmmadiag.csource.declarations import head_words, template_end
from wmmadiag.csource.lexical import Macro, closing
from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.outline import Item, outline
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import declared

# CUDA C++ Programming Guide, "Function Execution Space Specifiers" and "Variable Memory Space Specifiers".
DEVICE_WORDS = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__"})
_CONSTANT = frozenset({"constexpr", "const", "consteval", "constinit"})
_UNEVALUATED = re.compile(rb"\b(?:decltype|sizeof|alignof|noexcept|requires|typeid)\s*(?=\()")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_ROOT = re.compile(rb"(?<![\w:])([A-Za-z_]\w*)\s*::(?!\s*[*>)])")
# A word in capitals that no file defines may be a macro of a header that is not there, and mark device code.
_MACRO_LIKE = re.compile(r"[A-Z_][A-Z0-9_]{2,}")
_DECLARING = frozenset({"template", "constexpr", "struct", "class", "enum", "using", "typedef", "static_assert"})


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration with its verdict: "device" stays, "host" goes, "unsure" stays until the compiler refuses it."""

    item: Item
    verdict: str
    needed: bool = False  # whether device code may name it
    dropped: bool = False  # of host code: whether the compiler might take it, but nothing seems to need it

    @property
    def extent(self) -> tuple[int, int]:
        """(start, end) in the file's bytes."""
        return self.item.start, self.item.end


@dataclass(slots=True)
class _HostFile:
    source: Source
    items: tuple[Item, ...]
    heads: list[frozenset[str]] = field(default_factory=list)
    words: list[frozenset[str]] = field(default_factory=list)


def judged(sources: Mapping[str, Source], wanted: Iterable[str] = ()) -> dict[str, tuple[Declaration, ...]]:
    """The declarations of each file, by its key, with their verdicts; members of a class that goes are left out.

    `wanted`: texts that the compiler is given besides, such as name expressions: what they name is needed.
    """
    files = {key: _HostFile(source, outline(source)) for key, source in sources.items()}
    for one in files.values():
        one.heads = [head_words(one.source, item.start, item.head_end) for item in one.items]
        one.words = [_words(one.source.code.code[item.start : item.end]) for item in one.items]
    known = _Known(files.values(), frozenset(word for text in wanted for word in re.findall(r"[A-Za-z_]\w*", text)))
    return {key: tuple(_parts(one, known)) for key, one in files.items()}


@dataclass(slots=True)
class _Known:
    """What a verdict depends on beyond one declaration."""

    files: Iterable[_HostFile]
    wanted: frozenset[str]
    macros: dict[str, Macro] = field(default_factory=dict)
    device_names: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    evaluated: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for one in self.files:
            self.macros.update(one.source.code.macros)
            self.declared |= {part for item in one.items for part in item.scope.split("::")}
            self.declared |= {item.name for item in one.items if item.kind in ("record", "enum", "alias")}
            self.device_names |= {
                item.name for item, words in zip(one.items, one.heads, strict=True) if words & DEVICE_WORDS
            }
        self._reach()

    def _reach(self) -> None:
        """The words that device code can meet, through declarations and macros, and those of them evaluated."""
        by_name: dict[str, list[tuple[_HostFile, int]]] = {}
        waiting = list(self.wanted)
        for one in self.files:
            for index, item in enumerate(one.items):
                if _runs_on_device(one, index):
                    waiting += self._words_of(one, index)
                elif item.kind != "macro" and not _stays_with_host(item, one.heads[index]):
                    for name in _names(one, item):
                        by_name.setdefault(name, []).append((one, index))
        self.evaluated |= self.wanted
        while waiting:
            word = waiting.pop()
            if word in self.reached:
                continue
            self.reached.add(word)
            if word in self.macros:
                inner = re.findall(r"[A-Za-z_]\w*", self.macros[word].body)
                self.evaluated.update(inner)
                waiting += inner
            for one, index in by_name.get(word, ()):
                waiting += self._words_of(one, index)

    def _words_of(self, one: _HostFile, index: int) -> frozenset[str]:
        item = one.items[index]
        self.evaluated |= _evaluated(one.source.code.code[item.start : item.end], one.words[index])
        return one.words[index]


def kernels_reach(sources: Mapping[str, Source], wanted: Iterable[str]) -> frozenset[str]:
    """The words that kernels, and texts that the compiler is given besides, can meet through what the files declare."""
    by_name: dict[str, list[frozenset[str]]] = {}
    waiting = [word for text in wanted for word in re.findall(r"[A-Za-z_]\w*", text)]
    for source in sources.values():
        for name, macro in source.code.macros.items():
            by_name.setdefault(name, []).append(frozenset(re.findall(r"[A-Za-z_]\w*", macro.body)))
        for item in outline(source):
            words = _words(source.code.code[item.start : item.end])
            if "__global__" in head_words(source, item.start, item.head_end):
                waiting += words
            elif item.kind != "macro" and item.name:
                by_name.setdefault(item.name, []).append(words)
    reached: set[str] = set()
    while waiting:
        word = waiting.pop()
        if word not in reached:
            reached.add(word)
            waiting += (inner for words in by_name.get(word, ()) for inner in words)
    return frozenset(reached)


def for_host_too(source: Source, item: Item) -> bool:
    """Whether it is a function that both halves have."""
    return item.kind == "function" and "__host__" in head_words(source, item.start, item.head_end)


def _runs_on_device(one: _HostFile, index: int) -> bool:
    if one.heads[index] & DEVICE_WORDS:
        return True
    return one.items[index].kind in ("assertion", "instantiation") and bool(one.words[index] & DEVICE_WORDS)


def _plain_function(item: Item, head: frozenset[str]) -> bool:
    return item.kind in ("function", "prototype") and not head & {"constexpr", "consteval"}


def _plain_variable(item: Item, head: frozenset[str]) -> bool:
    return item.kind == "variable" and item.parent is None and not head & _CONSTANT


def _stays_with_host(item: Item, head: frozenset[str]) -> bool:
    """Whether device code cannot use it, whatever names it: what it is made of is not met there."""
    return _plain_function(item, head) or _plain_variable(item, head)


def _names(one: _HostFile, item: Item) -> Iterator[str]:
    """What it declares."""
    yield item.name
    if item.kind in ("variable", "record") and item.parent is None:
        yield from (variable.name for variable in declared(one.source, item.node, "namespace"))
    elif item.kind == "enum":
        yield from (
            one.source.text(name) for node in descendants(item.node, "enumerator") for name in node.children[:1]
        )


def _words(code: bytes) -> frozenset[str]:
    return frozenset(one.decode() for one in _WORD.findall(code))


def _evaluated(code: bytes, words: frozenset[str]) -> frozenset[str]:
    """The words of code outside the operands of `decltype`, `sizeof` and the like."""
    pieces, position = list[bytes](), 0
    for match in _UNEVALUATED.finditer(code):
        if match.start() < position:
            continue
        pieces.append(code[position : match.start()])
        position = closing(code, match.end()) or match.end()
    return words if not pieces else _words(b" ".join([*pieces, code[position:]]))


def in_operand(source: Source, offset: int) -> bool:
    """Whether an offset lies in an operand that is not evaluated."""
    code = source.code.code
    begin = max(code.rfind(mark, 0, offset) for mark in (b";", b"{", b"}")) + 1
    return any(
        match.end() <= offset < (closing(code, match.end()) or match.end())
        for match in _UNEVALUATED.finditer(code, begin, offset)
    )


def _parts(one: _HostFile, known: _Known) -> Iterator[Declaration]:
    gone: set[int] = set()
    device = {
        ancestor for index in range(len(one.items)) if one.heads[index] & DEVICE_WORDS
        for ancestor in _ancestors(one.items, index)
    }  # fmt: skip
    for index, item in enumerate(one.items):
        if item.parent in gone:
            gone.add(index)
            continue
        part = Declaration(item, "device", True) if index in device else _verdict(one, index, known)
        if part.verdict == "host":
            gone.add(index)
        yield part


def _ancestors(items: Sequence[Item], index: int) -> Iterator[int]:
    parent = items[index].parent
    while parent is not None:
        yield parent
        parent = items[parent].parent


def _verdict(one: _HostFile, index: int, known: _Known) -> Declaration:
    item, head = one.items[index], one.heads[index]
    if head & DEVICE_WORDS:
        return Declaration(item, "device", True)
    needed = bool(known.reached.intersection(_names(one, item)))
    if item.kind == "macro":
        # One of a library that is not there registers, tests or binds; one of these files may declare or instantiate,
        # and in a class it may declare data members.
        inside = item.parent is not None
        stays = item.name in known.macros and (inside or bool(head & (known.device_names | _DECLARING)))
        return Declaration(item, "unsure" if stays else "host", stays)
    if item.kind == "friend":
        return Declaration(item, "host" if item.head_end < item.end else "unsure", needed)
    if item.kind == "instantiation":
        stays = bool(head & {"class", "struct", "union"}) or item.name in known.device_names
        return Declaration(item, "unsure" if stays else "host", needed)
    if _plain_function(item, head):
        named = item.name in known.reached and item.name not in known.evaluated
        unknown = any(_MACRO_LIKE.fullmatch(word) and word not in known.macros for word in _lead(one, item))
        return Declaration(item, "unsure" if named or unknown else "host", needed)
    if _plain_variable(item, head):
        return Declaration(item, "host", needed)
    if (
        item.kind in ("record", "alias", "variable")
        and item.parent is None
        and not needed
        and _foreign(one, item, known)
    ):
        return Declaration(item, "host", needed, dropped=True)
    return Declaration(item, "unsure", needed)


def _lead(one: _HostFile, item: Item) -> frozenset[str]:
    """The words before a function's type: specifiers and macros."""
    kind = item.node.child_by_field_name("type")
    start = max(item.start, template_end(item.outer)) if item.outer.type == "template_declaration" else item.start
    return _words(one.source.code.code[start : kind.start_byte]) if kind is not None else frozenset()


def _foreign(one: _HostFile, item: Item, known: _Known) -> bool:
    """Whether it names something in a namespace that none of these files declares.

    A name that is brought in from a namespace that device code names is none, and no other name of a type there: a
    change of the source may use it. Of `std` the compiler has a part alone.
    """
    roots = {match.decode() for match in _ROOT.findall(one.source.code.code[item.start : item.end])}
    brought = item.node.type == "using_declaration"
    met = known.reached if brought else known.reached - {"std"} if item.kind == "alias" else frozenset()
    return bool(roots - known.declared - met)
