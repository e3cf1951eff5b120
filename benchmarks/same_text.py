"""Whether two pieces of CUDA code say the same: what is left of a text without its spelling.

Comments, blanks, parentheses, casts between integers and braces around one statement go; sums and products are put in
order, `a > b` becomes `b < a`, `x += e` becomes `x = x + e`, `&a[i]` becomes `a + i`, and
`if (c) x = a; else x = b;` becomes `x = c ? a : b;`. What is equal only because of what the values are stays unequal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wmmadiag.csource.nodes import called, descendants, field, walk
from wmmadiag.csource.tree import Source, parse
from wmmadiag.csource.types import VOID
from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.operators.cuda_names import RESULTS

if TYPE_CHECKING:
    from tree_sitter import Node

Form = Any
"""Nested tuples and strings; a sum is `("sum", {…})` with its terms sorted."""

_INTEGERS = frozenset(
    {"int", "unsigned", "long", "short", "size_t", "int64_t", "uint64_t", "int32_t", "uint32_t", "unsigned_int",
     "long_long", "uintptr_t", "ptrdiff_t"}
)  # fmt: skip
_CONVERSIONS = frozenset(
    {"__float2half", "__float2half_rn", "half", "__half", "float", "T", "static_cast<float>", "__half2float"}
)
_BLOCKS = frozenset(
    {"compound_statement", "function_definition", "struct_specifier", "for_statement", "if_statement",
     "while_statement", "declaration", "expression_statement", "alias_declaration", "type_definition", "preproc_def",
     "preproc_function_def", "field_declaration"}
)  # fmt: skip


# Constants that are nought: `const half zero = half(0.f);`
_ZEROS = re.compile(
    r"\bconst(?:expr)?\s+[\w:]+\s+(\w+)\s*(?:=\s*[\w:]*\(?|\(|\{)\s*(?:[\w:]+\()?0(?:\.0?f?)?\s*\)*[)};,]"
)
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(rb"[A-Za-z_]\w*|(?<![\w.])\d+(?![\w.])")
_NEUTRAL = (
    frozenset({"i_", "j_", "k_", "i", "j", "k", "c", "d"})
    | _INTEGERS
    | _CONVERSIONS
    | frozenset(["static_cast", "if", "else", "wmma", "nvcuda", "0", "1", "T"])
)


class Region:
    """Where two texts differ, and the smallest block of the first one that holds it."""

    def __init__(self, wrong: str, right: str) -> None:
        self.wrong, self.right = wrong.encode(), right.encode()
        shorter = min(len(self.wrong), len(self.right))
        start = next((at for at in range(shorter) if self.wrong[at] != self.right[at]), shorter)
        tail = next(
            (at for at in range(shorter - start) if self.wrong[-1 - at] != self.right[-1 - at]), shorter - start
        )
        self.start, self.end = start, len(self.wrong) - tail
        self.zeros = frozenset(_ZEROS.findall(wrong))
        # Words that a text may have more or fewer of and still say the same.
        self.neutral = _NEUTRAL | self.zeros
        self._right: dict[tuple[int, int], str] = {}
        self._plain: dict[tuple[int, int], str] = {}
        # What is inserted, where nothing goes.
        self.inserted = self.right[start : len(self.right) - tail]
        self._blocks = self._around()
        # What undoes a difference changes the statements that differ, or what stands directly beside them.
        self.near = self._beyond(-1, self.start), self._beyond(1, self.end)

    def undone_by(self, edits: Sequence[TextEdit], *, spelled: bool = False) -> bool:
        """Whether the edits make of the wrong text the right one.

        Args:
            spelled: by its spelling alone, blanks and comments aside, which is told sooner.
        """
        first, last = min(one.start for one in edits), max(one.end for one in edits)
        if last < self.near[0] or first > self.near[1]:
            return False
        # What replaces something far away as well changes what is right.
        if all(one.text and one.start < one.end for one in edits) and any(
            one.end < self.near[0] or one.start > self.near[1] for one in edits
        ):
            return False
        if self.start == self.end and len(edits) == 1 and edits[0].start == edits[0].end and self._elsewhere(edits[0]):
            return True
        first, last = min(first, self.start), max(last, self.end)
        block = next(((a, b) for a, b in self._blocks if a <= first and last <= b), (0, len(self.wrong)))
        grown = len(self.right) - len(self.wrong)
        expected = self.right[block[0] : block[1] + grown]
        made, position = b"", block[0]
        for one in sorted(edits, key=lambda one: (one.start, one.end)):
            made += self.wrong[position : one.start] + one.text.encode()
            position = one.end
        made += self.wrong[position : block[1]]
        if block not in self._plain:
            self._plain[block] = _plain(expected)
        if _plain(made) == self._plain[block]:
            return True
        if spelled or block[1] - block[0] == len(self.wrong) or not _words(made) ^ _words(expected) <= self.neutral:
            return False
        if block not in self._right:
            self._right[block] = _form(expected, self.zeros)
        return _form(made, self.zeros) == self._right[block]

    def _elsewhere(self, edit: TextEdit) -> bool:
        """Whether the right insertion is made a few statements away, and nothing between has to do with it."""
        first, last = sorted((edit.start, self.start))
        between, made = self.wrong[first:last], edit.text.encode()
        if b"{" in between or b"}" in between or _form(made, self.zeros) != _form(self._statement(), self.zeros):
            return False
        one, other = _touched(made), _touched(between)
        return one is not None and other is not None and not (one[0] & other[1] or other[0] & one[1])

    def _statement(self) -> bytes:
        """The inserted text, turned so that it is whole statements."""
        text, at = self.inserted, self.start
        while text and not text.rstrip().endswith((b";", b"}")) and self.right[at - 1 : at] == text[-1:]:
            text, at = text[-1:] + text[:-1], at - 1
        return text

    def _beyond(self, step: int, at: int) -> int:
        """The offset after the next two ends of statements in one direction."""
        ends = 0
        while 0 < at < len(self.wrong) - 1 and ends < 3:
            at += step
            ends += self.wrong[at : at + 1] in (b";", b"{", b"}")
        return at

    def _around(self) -> list[tuple[int, int]]:
        """The blocks that hold the difference, the smallest first."""
        source = parse(self.wrong)
        return sorted(
            (
                (one.start_byte, one.end_byte)
                for one in walk(source.root)
                if one.type in _BLOCKS and one.start_byte <= self.start and self.end <= one.end_byte
            ),
            key=lambda span: span[1] - span[0],
        )


def _touched(text: bytes) -> tuple[set[str], set[str]] | None:
    """The names that statements write, and all that they name; None where a call may do anything."""
    source = parse(b"void m() {" + text + b"}")
    written: set[str] = set()
    for one in walk(source.root):
        target = field(one, "left") if one.type == "assignment_expression" else field(one, "argument")
        if one.type in ("assignment_expression", "update_expression") and target is not None:
            written.add(next(source.text(part) for part in walk(target) if not part.child_count))
        elif one.type == "init_declarator":
            name = field(one, "declarator")
            written.add(source.text(name) if name is not None else "")
        elif one.type == "call_expression" and RESULTS.get(called(one), VOID) == VOID:
            return None
    names = {source.text(one) for one in walk(source.root) if one.type == "identifier"}
    return written, names


def _words(text: bytes) -> frozenset[str]:
    return frozenset(found.decode() for found in _WORD.findall(_COMMENT.sub(b"", text)))


def _plain(text: bytes) -> str:
    return "".join(_COMMENT.sub(b"", text).decode().split())


def _form(text: bytes, zeros: frozenset[str]) -> str:
    inside = not text.lstrip().startswith((b"#", b"template", b"__", b"static", b"struct"))
    source = parse(b"void m() {" + text + b"}" if inside else text)
    return repr(_Reader(source, zeros).form(source.root))


class _Reader:
    def __init__(self, source: Source, zeros: frozenset[str]) -> None:
        self.source = source
        self.zeros = zeros
        self.counters: dict[str, str] = {}

    def form(self, node: Node) -> Form:
        reader = getattr(self, f"_{node.type}", None)
        if reader is not None:
            return reader(node)
        if not node.named_child_count:
            return "".join(self.source.text(node).split())
        children = [self.form(one) for one in node.children if one.type != "comment"]
        return (node.type, *(one for one in children if one not in ("", ("nothing",))))

    def _parenthesized_expression(self, node: Node) -> Form:
        return self.form(node.named_children[0]) if node.named_child_count == 1 else ("parens", self.source.words(node))

    _condition_clause = _parenthesized_expression

    def _compound_statement(self, node: Node) -> Form:
        inner = [self.form(one) for one in node.named_children if one.type != "comment"]
        inner = [one for one in inner if one != ("nothing",)]
        if len(inner) == 1 and inner[0][0] != "declaration":
            return inner[0]
        return ("block", *inner)

    def _expression_statement(self, node: Node) -> Form:
        return self.form(node.named_children[0]) if node.named_child_count else ("nothing",)

    def _else_clause(self, node: Node) -> Form:
        return self.form(node.named_children[0])

    def _qualified_identifier(self, node: Node) -> Form:
        name = field(node, "name")
        return self.form(name) if name is not None else self.source.words(node)

    def _identifier(self, node: Node) -> Form:
        text = self.source.text(node)
        return _number("0") if text in self.zeros else self.counters.get(text, text)

    def _number_literal(self, node: Node) -> Form:
        return _number(self.source.text(node))

    def _binary_expression(self, node: Node) -> Form:
        symbol, left, right = self._parts(node)
        if symbol in ("+", "-", "*"):
            return _closed(_polynomial(symbol, left, right))
        if symbol in (">", ">="):
            return ({">": "<", ">=": "<="}[symbol], right, left)
        if symbol in ("&&", "||", "&", "|", "^", "==", "!="):
            parts = [left, right]
            if symbol not in ("==", "!="):
                parts = [inner for one in parts for inner in (one[1:] if one[:1] == (symbol,) else (one,))]
            return (symbol, *sorted(parts, key=repr))
        return (symbol, left, right)

    def _assignment_expression(self, node: Node) -> Form:
        symbol, left, right = self._parts(node)
        if symbol == "=":
            return self._assigned(left, right)
        inner = symbol[:-1]
        value = _closed(_polynomial(inner, left, right)) if inner in ("+", "-", "*") else (inner, left, right)
        return ("=", left, value)

    def _assigned(self, left: Form, right: Form) -> Form:
        return ("=", left, right)

    def _if_statement(self, node: Node) -> Form:
        parts = [field(node, name) for name in ("condition", "consequence", "alternative")]
        condition, first, second = (self.form(one) if one is not None else None for one in parts)
        both = all(isinstance(one, tuple) and one and one[0] == "=" for one in (first, second))
        if both and first[1] == second[1]:
            return ("=", first[1], ("?", condition, first[2], second[2]))
        return ("if", condition, first, second)

    def _conditional_expression(self, node: Node) -> Form:
        held = [self.form(one) for one in node.named_children if one.type != "comment"]
        if len(held) != 3:
            return ("?", *held)
        condition, first, second = held
        return ("?", condition, _where(first, condition, 2), _where(second, condition, 3))

    def _for_statement(self, node: Node) -> Form:
        first = field(node, "initializer")
        names = list(descendants(first, "init_declarator")) if first is not None else []
        held = [field(one, "declarator") for one in names]
        counters = [self.source.text(one) for one in held if one is not None and one.type == "identifier"]
        before = dict(self.counters)
        for name in counters:
            # What a counter is called says nothing.
            self.counters[name] = f"#{len(self.counters)}"
        made = (node.type, *(self.form(one) for one in node.named_children if one.type != "comment"))
        self.counters = before
        return made

    def _update_expression(self, node: Node) -> Form:
        held = field(node, "argument")
        value = self.form(held) if held is not None else ""
        symbol = "+" if "++" in self.source.text(node) else "-"
        return ("=", value, _closed(_polynomial(symbol, value, _number("1"))))

    def _subscript_expression(self, node: Node) -> Form:
        held, indices = field(node, "argument"), field(node, "indices")
        at = self.form(held) if held is not None else ""
        for one in indices.named_children if indices is not None else ():
            at = ("at", _closed(_polynomial("+", at, self.form(one))))
        return at

    def _pointer_expression(self, node: Node) -> Form:
        held = field(node, "argument")
        inner = self.form(held) if held is not None else ""
        if self.source.text(node).startswith("&"):
            return inner[1] if isinstance(inner, tuple) and inner[0] == "at" else ("&", inner)
        return ("at", inner)

    def _call_expression(self, node: Node) -> Form:
        function, held = field(node, "function"), field(node, "arguments")
        name = self.source.words(function).replace(" ", "") if function is not None else ""
        plain = name if "." in name or "->" in name else re.sub(r"\b\w+::", "", name)
        values = [self.form(one) for one in held.named_children if one.type != "comment"] if held is not None else []
        cast = re.sub(r"static_cast<(.*)>", r"\1", plain)
        if len(values) == 1:
            if cast in _INTEGERS or (cast in _CONVERSIONS and values[0] == _number("0")):
                return values[0]
            if plain in _CONVERSIONS and isinstance(values[0], tuple) and values[0][:1] == ("?",):
                _, condition, first, second = values[0]
                zero = _number("0")
                return ("?", condition, *(one if one == zero else ("call", plain, one) for one in (first, second)))
        if plain in ("min", "max", "fmaxf", "fminf", "fmax", "fmin"):
            values.sort(key=repr)
        return ("call", plain, *values)

    def _cast_expression(self, node: Node) -> Form:
        kind, value = field(node, "type"), field(node, "value")
        inner = self.form(value) if value is not None else ""
        name = self.source.words(kind).replace(" ", "_") if kind is not None else ""
        return inner if name in _INTEGERS else ("cast", name, inner)

    def _initializer_list(self, node: Node) -> Form:
        inner = [self.form(one) for one in node.named_children if one.type != "comment"]
        zero = _number("0")
        return ("zeros",) if all(one in (zero, ("zeros",)) for one in inner) else ("list", *inner)

    def _parts(self, node: Node) -> tuple[str, Form, Form]:
        symbol = field(node, "operator")
        left, right = field(node, "left"), field(node, "right")
        return (
            self.source.text(symbol) if symbol is not None else "",
            self.form(left) if left is not None else "",
            self.form(right) if right is not None else "",
        )


def _where(form: Form, condition: Form, taken: int) -> Form:
    """A form where a condition is known to hold, or not to."""
    if not isinstance(form, tuple):
        return form
    if form[:1] == ("?",) and form[1] == condition:
        return _where(form[taken], condition, taken)
    return tuple(_where(one, condition, taken) for one in form)


def _number(text: str) -> Form:
    plain = text.replace("'", "").rstrip("uUlLfF") if not text.lower().startswith("0x") else text.rstrip("uUlL")
    try:
        return ("sum", (((), int(plain, 0)),)) if plain != "0" else ("sum", ())
    except ValueError:
        pass
    try:
        value = float(plain)
    except ValueError:
        return text
    return ("sum", (((), int(value)),) if value else ()) if value == int(value) else repr(value)


def _polynomial(symbol: str, left: Form, right: Form) -> dict[tuple[Form, ...], int]:
    first, second = _open(left), _open(right)
    if symbol in ("+", "-"):
        made = dict(first)
        for key, count in second.items():
            made[key] = made.get(key, 0) + (count if symbol == "+" else -count)
        return made
    made = {}
    for key, count in first.items():
        for other, times in second.items():
            both = tuple(sorted((*key, *other), key=repr))
            made[both] = made.get(both, 0) + count * times
    return made


def _open(form: Form) -> dict[tuple[Form, ...], int]:
    if isinstance(form, tuple) and form and form[0] == "sum":
        return dict(form[1])
    return {(form,): 1}


def _closed(terms: dict[tuple[Form, ...], int]) -> Form:
    kept = {key: count for key, count in terms.items() if count}
    if len(kept) == 1:
        ((key, count),) = kept.items()
        if count == 1 and len(key) == 1:
            return key[0]
    return ("sum", tuple(sorted(kept.items(), key=repr)))
