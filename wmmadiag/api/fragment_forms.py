"""Which fragments there are: the names that users write, what each architecture has, and the nearest name to a typo.

Shapes and types are those of `numerics.tensor_core_forms`, layouts and `ldmatrix` those of the instruction table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from wmmadiag.errors import ConfigurationError, UnsupportedError, did_you_mean
from wmmadiag.numerics.architecture import architecture
from wmmadiag.numerics.element_types import ALIASES
from wmmadiag.numerics.tensor_core_forms import FORMS, TensorCoreForm
from wmmadiag.ptx.instructions import lookup
from wmmadiag.results.shapes import ShapeRow

_MOVES = ("ldmatrix", "stmatrix")
_COUNTS = ("x1", "x2", "x4")
_LAYOUTS = ("row", "col")
# As <mma.h> calls them.
_MATRICES = {"matrix_a": "a", "matrix_b": "b", "accumulator": "c"}
_MAJOR = {"row_major": "row", "mem_row_major": "row", "col_major": "col", "mem_col_major": "col"}


@dataclass(frozen=True, slots=True)
class FragmentForm:
    """One fragment, by its names.

    Attributes:
        instruction: "wmma", "mma", "ldmatrix" or "stmatrix".
        shape: "m16n16k16"; "m8n8" of `ldmatrix`.
        type: element type.
        matrix: "a", "b", "c", "d"; "" of `ldmatrix`.
        layout: "row" or "col"; "" of `ldmatrix`.
        count: "x1", "x2", "x4" of `ldmatrix`, else "".
        trans: `ldmatrix` with `.trans`.
    """

    instruction: str
    shape: str
    type: str
    matrix: str = ""
    layout: str = ""
    count: str = ""
    trans: bool = False

    @property
    def name(self) -> str:
        """ "wmma m16n16k16", "mma.sync m16n8k16", "ldmatrix.x4.trans"."""
        if self.count:
            return f"{self.instruction}.{self.count}" + ".trans" * self.trans
        if self.instruction == "wmma":
            return f"wmma {self.shape}"
        choice = (self.shape, self.type) == ("m8n8k4", "f16") and self.matrix in ("a", "b")
        return f"mma.sync {self.shape}" + f".{self.layout}" * choice


def find(shape: str, type: str, matrix: str, layout: str, arch: str) -> FragmentForm:
    """The fragment that a user means.

    Raises:
        ConfigurationError: there is none of that name on any architecture.
        UnsupportedError: `arch` lacks it, or is unknown.
    """
    architecture(arch)
    words = [word for word in re.split(r"[.\s]+", shape.strip().lower()) if word]
    if words and (words[0] in _MOVES or difflib.get_close_matches(words[0], _MOVES, 1, 0.75)):
        return _move([*words, *(word.lower() for word in (type, matrix) if word)], layout, arch)
    if words[:1] == ["movmatrix"]:
        hint = "its result is what ldmatrix.x1.trans gives: wmmadiag fragment ldmatrix.x1.trans"
        raise ConfigurationError("movmatrix moves between registers, from ldmatrix.x1's to their transpose", hint=hint)
    if words[:1] in (["wgmma"], ["tcgen05"]):
        raise UnsupportedError(f"{words[0]} is not emulated", hint="mma.m16n8k16, m16n16k16 and ldmatrix.x4 are")
    instruction = "mma" if words[:1] == ["mma"] else "wmma"
    rest = [word for word in words if word not in ("mma", "wmma", "sync", "aligned")]
    if len(rest) != 1:
        raise ConfigurationError(f"'{shape}' is no shape", hint="such as m16n16k16, mma.m16n8k16 or ldmatrix.x4")
    name = _shape(instruction, _spelled(rest[0]))
    types = {kind for form in _of(instruction, name) for kind in (*form.a, *(t for pair in form.cd for t in pair))}
    letters = ("a", "b", "c", "d")
    letter = _MATRICES.get(matrix.lower(), matrix.lower())
    if letter not in letters:
        # Given the other way round, they are shown in order.
        shown = f"{matrix} {type}" if type.lower() in letters else f"{type or _of(instruction, name)[0].a[0]} a"
        raise ConfigurationError(
            f"there is no matrix '{matrix}'" if matrix else "which matrix of it?",
            hint=f"a, b, c (accumulator, loaded) and d (stored) exist: wmmadiag fragment {shape} {shown}",
        )
    kind = _type(instruction, name, type, letter, types)
    forms = [form for form in _of(instruction, name) if kind in _types(form, letter)]
    if not any(form.available(architecture(arch)) for form in forms):
        raise UnsupportedError(
            f"{arch} has no {instruction} {name} with {letter.upper()} of {kind}",
            hint=f"it exists on {forms[0].where()}; `wmmadiag shapes --arch {arch}` lists what {arch} has",
        )
    choices = _layouts_of(forms[0], kind, letter)
    wished = _MAJOR.get(layout.lower(), layout.lower())
    if wished and wished not in _LAYOUTS:
        raise ConfigurationError(f"there is no layout '{layout}'", hint="row and col exist")
    if wished and wished not in choices:
        raise ConfigurationError(
            f"{instruction} {name} takes {letter.upper()} of {kind} as {' or '.join(choices)} only",
            hint=f"leave --layout away, or give {choices[0]}",
        )
    return FragmentForm(instruction, name, kind, letter, wished or choices[0])


def rows(arch: str = "") -> tuple[ShapeRow, ...]:
    """What there is, or what an architecture has: `wmma`, `mma.sync`, then the moves of 8×8 matrices.

    Raises:
        UnsupportedError: unknown architecture.
    """
    target = architecture(arch) if arch else None
    merged: dict[tuple[object, ...], ShapeRow] = {}
    for form in FORMS:
        if target is not None and not form.available(target):
            continue
        layouts = {letter: _layouts_of(form, form.a[0], letter) for letter in "ab"}
        # Types that may be mixed are a group of their own.
        key = (form.instruction, form.shape, form.cd, form.a if form.mixed else (), form.where(), form.bit_ops)
        before = merged[key].types if key in merged else ()
        merged[key] = ShapeRow(
            instruction="mma.sync" if form.instruction == "mma" else form.instruction, shape=form.shape,
            types=(*before, *form.a), mixed=form.mixed, sums=form.cd,
            operations=tuple(op.replace("_", ".") for op in form.bit_ops if op),
            a_layouts=layouts["a"], b_layouts=layouts["b"], where=form.where(),
        )  # fmt: skip
    return (*merged.values(), *(row for row, sm in _moves() if target is None or target.number >= sm))


def _moves() -> Iterator[tuple[ShapeRow, int]]:
    for instruction, counts, transposed in (*((name, _COUNTS, True) for name in _MOVES), ("movmatrix", ("",), False)):
        opcode = _opcode(instruction, counts[-1], not transposed)
        sm = lookup(opcode)[0].sm
        words = tuple(f".{count}" for count in counts if count) + ((".trans",) if transposed else ())
        yield ShapeRow(instruction, "m8n8", ("b16",), False, (), words or (".trans",), (), (), f"sm_{sm} and later"), sm


def _opcode(instruction: str, count: str, trans: bool) -> str:
    space = ".shared" if instruction in _MOVES else ""
    words = [instruction, "sync", "aligned", "m8n8", count, "trans" if trans else ""]
    return ".".join(word for word in words if word) + f"{space}.b16"


def _move(words: Sequence[str], layout: str, arch: str) -> FragmentForm:
    name, count, trans = words[0], "", False
    if name not in _MOVES:
        raise ConfigurationError(f"there is no '{name}'", hint=did_you_mean(name, _MOVES))
    for word in words[1:]:
        if word in _COUNTS:
            count = word
        elif word == "trans":
            trans = True
        elif word not in ("sync", "aligned", "m8n8", "b16", "shared"):
            if word in ("m16n16", "m16n8", "b8", "b6", "b4"):
                raise UnsupportedError(f"{name} of {word} is not emulated", hint="m8n8 of b16 is")
            raise ConfigurationError(f"{name} has no '.{word}'", hint=f"{name}.x1, .x2 and .x4 exist, also with .trans")
    if not count:
        raise ConfigurationError(f"how many matrices does this {name} move?", hint=f"{name}.x1, {name}.x2 or {name}.x4")
    if layout:
        raise ConfigurationError(f"{name} has no layout", hint=f"{name}.{count}.trans turns each matrix")
    sm = lookup(_opcode(name, count, trans))[0].sm
    if architecture(arch).number < sm:
        raise UnsupportedError(f"{arch} has no {name}", hint=f"it exists on sm_{sm} and later")
    return FragmentForm(name, "m8n8", "b16", count=count, trans=trans)


def _of(instruction: str, shape: str) -> list[TensorCoreForm]:
    return [form for form in FORMS if (form.instruction, form.shape) == (instruction, shape)]


def _types(form: TensorCoreForm, letter: str) -> tuple[str, ...]:
    return form.a if letter in "ab" else tuple(pair["cd".index(letter)] for pair in form.cd)


def _spelled(word: str) -> str:
    """ "m16n16k16" of "16x16x16"."""
    sizes = re.fullmatch(r"(\d+)[x,](\d+)[x,](\d+)", word)
    return f"m{sizes[1]}n{sizes[2]}k{sizes[3]}" if sizes else word


def _shape(instruction: str, word: str) -> str:
    known = list(dict.fromkeys(form.shape for form in FORMS if form.instruction == instruction))
    if word in known:
        return word
    other = "mma" if instruction == "wmma" else "wmma"
    called = {"mma": "mma.sync", "wmma": "wmma"}
    if _of(other, word):
        prefix = "mma." if other == "mma" else ""
        hint = f"{called[other]} has it: {prefix}{word}"
    else:
        hint = _nearest(word, known)
    raise ConfigurationError(f"{called[instruction]} has no shape {word}", hint=hint)


def _type(instruction: str, shape: str, word: str, letter: str, types: Iterable[str]) -> str:
    known = list(dict.fromkeys(t for form in _of(instruction, shape) for t in _types(form, letter)))
    kind = word.lower().removeprefix("precision::")
    kind = kind if kind in types else ALIASES.get(kind, kind)
    if kind in known:
        return kind
    what = f"{'mma.sync' if instruction == 'mma' else 'wmma'} {shape}"
    listed = f"types of {letter.upper()} there: {', '.join(known)}"
    if not word:
        raise ConfigurationError(f"which element type of {letter.upper()} in {what}?", hint=listed)
    elsewhere = [form.shape for form in FORMS if form.instruction == instruction and kind in _types(form, letter)]
    if kind in types:
        hint = listed
    elif elsewhere:
        hint = f"{listed}; {kind} is in {', '.join(dict.fromkeys(elsewhere))}"
    else:
        near = difflib.get_close_matches(kind, known, 1, 0.5)
        hint = f"did you mean '{near[0]}'? {listed}" if near else listed
    raise ConfigurationError(f"{what} has no matrix {letter.upper()} of type {word}", hint=hint)


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1, 0.6)
    there = f"shapes there are: {', '.join(known)}"
    return f"did you mean {near[0]}? {there}" if near else there


def _layouts_of(form: TensorCoreForm, kind: str, letter: str) -> tuple[str, ...]:
    """Layouts that this matrix may have, the usual one first."""
    usual = ("col", "row") if letter == "b" and form.instruction == "mma" else _LAYOUTS
    if form.instruction == "wmma":
        action = "store" if letter == "d" else "load"
        return tuple(one for one in usual
                     if lookup(f"wmma.{action}.{letter}.sync.aligned.{one}.{form.shape}.{kind}"))  # fmt: skip
    if letter in "cd":
        return ("row",)
    c, d = form.cd[0]
    kind_word = ".kind::f8f6f4" if form.family else ""
    operation = form.bit_ops[0].replace("_", ".")
    tail = f".{operation}" if operation else ""
    found = []
    for a, b in product(_LAYOUTS, repeat=2):
        opcode = f"mma.sync.aligned.{form.shape}.{a}.{b}{kind_word}.{d}.{form.a[0]}.{form.a[0]}.{c}{tail}"
        # Modifiers are matched in any order: what they mean is in the attributes.
        if any((one.attributes.get("alayout"), one.attributes.get("blayout")) == (a, b) for one in lookup(opcode)):
            found.append(a if letter == "a" else b)
    return tuple(one for one in usual if one in found)
