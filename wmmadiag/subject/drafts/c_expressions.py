"""C expressions of host code in the card's expression language.

Only what launch configurations are made of: numbers, names, arithmetic, comparisons, `?:`, casts, min, max, ceil,
sqrt, and one-line helper functions or macros such as CEIL_DIV. C's integer division becomes `//`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

Typed: TypeAlias = tuple[str, bool]
"""An expression of the card's language, and whether its value is floating point."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[uUlLfF]*)"
    r"|(?P<name>(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)|(?P<mark><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()<>?:!~&|^,{}\[\].]))"
)
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_SPELLING = {"||": "or", "&&": "and"}
_TYPE_WORDS = {
    "int", "unsigned", "long", "short", "size_t", "float", "double", "const", "signed", "char", "uint32_t", "int32_t",
    "int64_t", "uint64_t", "std::size_t", "std::int64_t", "std::uint64_t", "uint", "bool", "auto",
}  # fmt: skip
_FLOAT_WORDS = {"float", "double"}
# sizeof: CUDA C++ Programming Guide 13, "Built-in Vector Types" and "Half/bfloat16 headers".
_SIZES = {
    "half": 2, "__half": 2, "half2": 4, "__half2": 4, "__nv_bfloat16": 2, "nv_bfloat16": 2, "float": 4, "double": 8,
    "int": 4, "unsigned": 4, "char": 1, "int8_t": 1, "uint8_t": 1, "int4": 16, "uint4": 16, "float4": 16, "float2": 8,
    "int32_t": 4, "uint32_t": 4, "short": 2, "size_t": 8, "int64_t": 8,
}  # fmt: skip
_FUNCTIONS: Mapping[str, tuple[str, bool | None]] = {
    # C name → (name in a card, whether the value is floating; None: as the arguments)
    "min": ("min", None), "max": ("max", None), "std::min": ("min", None), "std::max": ("max", None),
    "sqrt": ("sqrt", True), "sqrtf": ("sqrt", True), "std::sqrt": ("sqrt", True), "rsqrtf": ("rsqrt", True),
    "ceil": ("ceil", True), "ceilf": ("ceil", True), "std::ceil": ("ceil", True), "floor": ("floor", True),
    "log2f": ("log2", True), "abs": ("abs", None),
}  # fmt: skip
_MAX_DEPTH = 24
# What runs on as many blocks as the chip holds works with any number of them; three are uneven and quick.
_PROCESSORS = re.compile(
    r"(?:[\w:]+(?:\(\w*\))?\s*(?:\.|->)\s*)+multiProcessorCount\b|\bcudaDevAttrMultiProcessorCount\b"
)
_TENSOR_MEMBER = re.compile(
    r"(?:\.|->)(?:(?P<one>size|stride)\(|(?P<list>sizes|strides|shape)(?:\(\))?\[)(?P<index>-?\d+)[)\]]"
)
_TENSOR_LISTS = {"sizes": "size", "shape": "size", "strides": "stride"}


class CannotTranslate(ValueError):
    """What stands in the way, in words."""


@dataclass(frozen=True, slots=True)
class Helper:
    """A function-like macro or a one-line function: parameters and body."""

    parameters: tuple[str, ...]
    body: str


@dataclass(frozen=True, slots=True)
class HostScope:
    """What names mean in an expression of host code.

    Attributes:
        symbols: name → expression of the card's language.
        definitions: name → C text (constants, macros, local variables), looked up after `symbols`.
        helpers: functions and function-like macros.
        ask: for the value of a constant that only a compiler knows; None where it has none.
    """

    symbols: Mapping[str, str]
    definitions: Mapping[str, str] = field(default_factory=dict)
    helpers: Mapping[str, Helper] = field(default_factory=dict)
    ask: Callable[[str], int | None] | None = None
    steps: list[int] = field(default_factory=lambda: [_MOST_STEPS])

    def constant(self, text: str) -> int | None:
        """What the compiler says, or None."""
        return None if self.ask is None else self.ask(text)


_MOST_STEPS = 5000


def translate(text: str, scope: HostScope) -> str:
    """The expression in the card's language.

    Raises:
        CannotTranslate: with what is not understood.
    """
    scope.steps[0] = _MOST_STEPS
    return _bare(_translate(text, scope, 0)[0])


def _translate(text: str, scope: HostScope, depth: int) -> Typed:
    text = _PROCESSORS.sub("3", text)
    scope.steps[0] -= 1
    if depth > _MAX_DEPTH or len(text) > 2000 or scope.steps[0] < 0:  # each definition may name another twice
        raise CannotTranslate("the definitions are nested too deeply")
    try:
        parser = _Parser(_tokens(text), scope, depth)
        result = parser.ternary()
        if parser.position < len(parser.tokens):
            raise CannotTranslate(f"'{text}' is not a plain expression")
    except CannotTranslate:
        # `Traits<64>::kBytes`, or a constexpr function
        value = scope.constant(text) if scope.steps[0] >= 0 and ("<" in text or "(" in text) else None
        if value is None:
            raise
        return str(value), False
    return result


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CannotTranslate(f"'{text[position:].strip()[:20]}' is not understood")
        suffix = match["suffix"] or ""
        number = match["number"]
        if number is not None and "f" in suffix.lower() and not number.lower().startswith("0x"):
            number = number if any(c in number for c in ".eE") else number + ".0"
        tokens.append(number or match["name"] or match["mark"])
        position = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[str], scope: HostScope, depth: int) -> None:
        self.tokens = tokens
        self.scope = scope
        self.depth = depth
        self.position = 0
        self.nesting = 0

    def peek(self, ahead: int = 0) -> str:
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise CannotTranslate(f"expected '{expected or 'an operand'}' before '{token or 'the end'}'")
        self.position += 1
        return token

    def ternary(self) -> Typed:
        self.nesting += 1
        if self.nesting > 60:
            raise CannotTranslate("the expression is nested too deeply")
        test, floating = self.binary(0)
        if self.peek() == "?":
            self.take()
            yes, yes_floating = self.ternary()
            self.take(":")
            no, no_floating = self.ternary()
            test, floating = f"({yes} if {test} else {no})", yes_floating or no_floating
        self.nesting -= 1
        return test, floating

    def binary(self, level: int) -> Typed:
        if level == len(_LEVELS):
            return self.unary()
        left, floating = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            operator = self.take()
            right, right_floating = self.binary(level + 1)
            floating = floating or right_floating
            spelling = _SPELLING.get(operator, operator)
            if operator == "/" and not floating:
                left = _whole_quotient(left, right)
                continue
            left = f"({left} {spelling} {right})"
        return left, floating

    def unary(self) -> Typed:
        token = self.peek()
        if token in ("-", "+", "~", "!"):
            self.take()
            value, floating = self.unary()
            return f"({'not ' if token == '!' else token}{value})", floating
        if token == "(" and self._cast_words():
            words = self._cast_words()
            self.position += len(words) + 2
            value, floating = self.unary()
            if set(words) & _FLOAT_WORDS:
                return f"float({value})", True
            return (f"int({value})" if floating else value), False
        return self.primary()

    def _cast_words(self) -> list[str]:
        words = []
        ahead = 1
        while self.peek(ahead) in _TYPE_WORDS:
            words.append(self.peek(ahead))
            ahead += 1
        return words if self.peek(ahead) == ")" else []

    def primary(self) -> Typed:
        token = self.take()
        if token == "(":
            value, floating = self.ternary()
            self.take(")")
            return value, floating
        if token[0].isdigit() or token[0] == ".":
            if token.lower().startswith("0x"):
                return str(int(token, 16)), False
            floating = any(c in token for c in ".eE")
            return (token if floating else str(int(token))), floating
        if not (token[0].isalpha() or token[0] in "_:"):
            raise CannotTranslate(f"'{token}' is not understood")
        name = token.removeprefix("::")
        if name == "static_cast" and self.peek() == "<":
            return self._static_cast()
        if name == "sizeof":
            return self._size_of(), False
        if self.peek() == "(":
            return self._call(name)
        size = self._tensor_member(name)
        if size is not None:
            return size
        member, length = self._member(name)
        if length:
            self.position += length
            return self._name(member)
        if self.peek() in ("[", ".") or (self.peek() == "-" and self.peek(1) == ">"):
            raise CannotTranslate(f"'{name}{self.peek()}…' is not a plain number")
        return self._name(name)

    def _tensor_member(self, name: str) -> Typed | None:
        """`q.size(1)`, `q->stride(0)`, `q.sizes()[1]`, `q.shape[1]`, if the scope knows them as "q.size(1)"."""
        rest = "".join(self.tokens[self.position : self.position + 9])
        match = _TENSOR_MEMBER.match(rest)
        key = f"{name}.{match['one'] or _TENSOR_LISTS[match['list']]}({match['index']})" if match else ""
        if match is None or key not in self.scope.symbols:
            return None
        end = match.end()
        while end > 0:
            end -= len(self.take())
        return self._name(key)

    def _member(self, name: str) -> tuple[str, int]:
        """The longest `p.strides.q`, `p->dims[1]` or `grid.x` that the scope knows; how many tokens follow `name`."""
        best, length, ahead = "", 0, 0
        while True:
            if self.peek(ahead) == "." and self.peek(ahead + 1).isidentifier():
                name, ahead = f"{name}.{self.peek(ahead + 1)}", ahead + 2
            elif self.peek(ahead) == "-" and self.peek(ahead + 1) == ">" and self.peek(ahead + 2).isidentifier():
                name, ahead = f"{name}.{self.peek(ahead + 2)}", ahead + 3
            elif self.peek(ahead) == "[" and self.peek(ahead + 1).isdecimal() and self.peek(ahead + 2) == "]":
                name, ahead = f"{name}[{self.peek(ahead + 1)}]", ahead + 3
            else:
                return best, length
            if name in self.scope.symbols or name in self.scope.definitions:
                best, length = name, ahead

    def _size_of(self) -> str:
        self.take("(")
        words, depth = [], 0
        while depth or self.peek() != ")":
            words.append(self.take())
            depth += (words[-1] in ("(", "[")) - (words[-1] in (")", "]"))
        self.take(")")
        size = _SIZES.get(" ".join(words))
        size = self.scope.constant(f"sizeof({' '.join(words)})") if size is None else size
        if size is None:
            raise CannotTranslate(f"the size of '{' '.join(words)}' is not known")
        return str(size)

    def _static_cast(self) -> Typed:
        self.take("<")
        words = []
        while self.peek() not in (">", ""):
            words.append(self.take())
        self.take(">")
        self.take("(")
        value, floating = self.ternary()
        self.take(")")
        if set(words) & _FLOAT_WORDS:
            return f"float({value})", True
        return (f"int({value})" if floating else value), False

    def _name(self, name: str) -> Typed:
        if name in self.scope.symbols:
            known = self.scope.symbols[name]
            return (known if re.fullmatch(r"[\w.]+|\w+\(.*\)", known) else f"({known})"), False
        if name in ("true", "false"):
            return ("1" if name == "true" else "0"), False
        if name in self.scope.definitions:
            rest = {key: value for key, value in self.scope.definitions.items() if key != name}
            inner = replace(self.scope, definitions=rest)
            return _translate(self.scope.definitions[name], inner, self.depth + 1)
        value = self.scope.constant(name) if "::" in name else None
        if value is not None:
            return str(value), False
        raise CannotTranslate(f"the name '{name}' is not known")

    def _call(self, name: str) -> Typed:
        self.take("(")
        arguments: list[Typed] = []
        while self.peek() != ")":
            arguments.append(self.ternary())
            if self.peek() == ",":
                self.take()
        self.take(")")
        texts = [text for text, _ in arguments]
        if name in _TYPE_WORDS and len(arguments) == 1:  # int64_t(n)
            inner, inner_floating = arguments[0]
            if name in _FLOAT_WORDS:
                return f"float({inner})", True
            return (f"int({inner})" if inner_floating else inner), False
        helper = self.scope.helpers.get(name)
        if helper is not None and len(helper.parameters) == len(arguments):
            # Arguments go in as opaque names, so that their own names are not looked up again in the body.
            symbols = {**self.scope.symbols, **dict(zip(helper.parameters, texts, strict=True))}
            rest = {key: value for key, value in self.scope.helpers.items() if key != name}
            return _translate(helper.body, replace(self.scope, symbols=symbols, helpers=rest), self.depth + 1)
        if name in _FUNCTIONS:
            known, floating = _FUNCTIONS[name]
            if known == "ceil" and len(texts) == 1:
                simple = re.fullmatch(r"\(float\((\w+)\) / (\w+)\)", texts[0])
                if simple:
                    return f"ceil_div({simple[1]}, {simple[2]})", True
            any_floating = any(f for _, f in arguments)
            return f"{known}({', '.join(texts)})", any_floating if floating is None else floating
        if _is_ceil_div(name) and len(texts) == 2:
            return f"ceil_div({texts[0]}, {texts[1]})", False
        raise CannotTranslate(f"the function '{name}' is not known")


def _is_ceil_div(name: str) -> bool:
    """Whether a name says "quotient rounded up", for helpers that a header outside the source defines."""
    return name.split("::")[-1].lower().replace("_", "") in {"ceildiv", "cdiv", "divup", "divceil", "updiv", "iceil"}


def _whole_quotient(left: str, right: str) -> str:
    """C's quotient of integers; the idiom (a + b - 1) / b becomes ceil_div(a, b)."""
    if right.isdecimal():
        match = re.fullmatch(r"\((.+) \+ (\d+)\)", left)
        if match and int(match[2]) == int(right) - 1 and _balanced(match[1]):
            return f"ceil_div({_bare(match[1])}, {right})"
    match = re.fullmatch(r"\(\((.+) \+ (.+)\) - 1\)", left)
    if match and match[2] == right and _balanced(match[1]):
        return f"ceil_div({_bare(match[1])}, {right})"
    return f"({left} // {right})"


def _bare(text: str) -> str:
    return text[1:-1] if text[0] == "(" and text[-1] == ")" and _balanced(text[1:-1]) else text


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def split_arguments(text: str) -> list[str]:
    """The parts of `a, f(b, c), d` between top-level commas."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def dimensions(text: str, scope: HostScope, convert: Callable[[str, HostScope], str] = translate) -> list[str]:
    """The expressions of a launch dimension: `dim3(a, b)`, `{a, b}`, a dim3 variable, or one number.

    Raises:
        CannotTranslate: with what is not understood.
    """
    for _ in range(8):
        text = text.strip()
        known = scope.definitions.get(text)
        if known is None or f"{text}.x" in scope.definitions:
            break
        text = known
    if f"{text}.x" in scope.definitions:
        members = [scope.definitions.get(f"{text}.{axis}", "1") for axis in "xyz"]
        return [_bare(convert(member, scope)) for member in members]
    match = re.fullmatch(r"(?:dim3\s*[({]|\{)(.*)[)}]", text, re.DOTALL)
    parts = split_arguments(match[1]) if match else [text]
    return [_bare(convert(part, scope)) for part in parts][:3]
