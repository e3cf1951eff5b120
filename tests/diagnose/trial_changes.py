"""Changes for tests of the trials, and cards written for one: integer expressions of a kernel, changed at random."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from tree_sitter import Node

from wmmadiag.csource.scopes import Scopes
from wmmadiag.csource.tree import Source, parse
from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.changes import Change, Kind, TextEdit, Texts
from wmmadiag.subject.card import Card
from wmmadiag.subject.open_subject import open_subject

ROOT = Path(__file__).resolve().parents[2]
_PARENTS = frozenset({"binary_expression", "subscript_argument_list", "parenthesized_expression"})
_OPAQUE = frozenset(
    {"preproc_def", "preproc_function_def", "template_argument_list", "gnu_asm_expression", "parameter_list"}
)
OF_TWICE = """format = 1
source = "k.cu"
entry = "twice"

[[arguments]]
role = "x"
dtype = "f32"

[[arguments]]
role = "y"
dtype = "f32"

[computes]
operation = "softmax"

[launch]
grid = ["1"]
block = ["64"]

[[cases]]
name = "one"
M = 2
N = 32
"""
"""A card of `twice(x, y)` in k.cu, which is no softmax."""
UNORDERED = """const int place = threadIdx.y * 8 + threadIdx.x;
    __shared__ float staged[64], again[64];
    staged[place] = sum;
    sum += 0.0f * staged[place % 16];
    again[place] = sum;
    sum += 0.0f * again[31 - threadIdx.x];
    c[at(row, n, col)] = sum;"""
"""The second warp reads what the first one wrote, twice without a barrier; one after the other they are right."""


def edit(texts: Texts, old: str, new: str, *, file: str = "", nth: int = 0) -> TextEdit:
    """The nth occurrence of some text replaced; `^old` inserts before it, `old$` behind it."""
    name = file or next(iter(texts))
    plain = old.removeprefix("^").removesuffix("$")
    start = -1
    for _ in range(nth + 1):
        start = texts[name].index(plain.encode(), start + 1)
    end = start + len(plain.encode())
    if old.startswith("^"):
        return TextEdit(name, start, start, new)
    return TextEdit(name, end, end, new) if old.endswith("$") else TextEdit(name, start, end, new)


def change(*edits: TextEdit, kind: Kind = "expression") -> Change:
    return Change("test", edits, kind, "test", " and ".join(f"{one.start} {one.text}" for one in edits))


def integer_changes(texts: Texts, seed: int, count: int) -> list[Change]:
    """Changes of integer operands and indices, others of the same type in scope among them; nearly all compile."""
    random = Random(seed)
    file, text = next(iter(texts.items()))
    source = parse(text)
    scopes = Scopes(source)
    places = list(_places(source, scopes))
    random.shuffle(places)
    made = []
    for node in places[:count]:
        old = source.text(node)
        names = [name for name, one in scopes.at(node.start_byte).items() if _whole(one) and name != old]
        news = [
            f"(({old}) + 1)",
            f"(({old}) * 2)",
            f"(({old}) / 2)",
            f"(({old}) - 1)",
            *random.sample(names, min(2, len(names))),
        ]
        made.append(change(TextEdit(file, node.start_byte, node.end_byte, random.choice(news))))
    return made


def _places(source: Source, scopes: Scopes) -> Iterator[Node]:
    open_ones = [(source.root, False)]
    while open_ones:
        node, inside = open_ones.pop()
        if node.type in _OPAQUE or (node.type == "declaration" and _fixed(source.text(node))):
            continue
        inside = inside or node.type == "function_definition"
        parent = node.parent
        wanted = inside and node.type in ("identifier", "number_literal", "binary_expression")
        if wanted and parent is not None and parent.type in _PARENTS and _integer(source, node, scopes):
            yield node
        open_ones += [(child, inside) for child in node.children]


def _integer(source: Source, node: Node, scopes: Scopes) -> bool:
    """Whether an expression is made of integer variables and literals alone."""
    if node.type == "number_literal":
        return source.text(node).isdigit()
    if node.type == "identifier":
        found = scopes.at(node.start_byte).get(source.text(node))
        return found is not None and _whole(found)
    return node.type in ("binary_expression", "parenthesized_expression") and all(
        _integer(source, child, scopes) for child in node.named_children
    )


def _whole(variable: Variable) -> bool:
    plain = variable.type.replace("const", "").split()
    return plain in (["int"], ["unsigned"], ["size_t"]) and not variable.pointers and not variable.dimensions


def _fixed(declaration: str) -> bool:
    head = declaration.partition("=")[0]
    return any(word in head for word in ("constexpr", "__shared__", "static", "using"))


def card_of(name: str) -> Card:
    """A card of the repository."""
    return open_subject(ROOT / name)


GEMM = """
#include "tile.h"
#define ADD(x, y) ((x) + (y) * SCALE)
#define SCALE 1
extern "C" __global__ void other(float* c) { c[0] = at(1, 2, 3); }
extern "C" __global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    __shared__ float part[TILE][TILE];
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
        part[threadIdx.y][threadIdx.x] = a[row * k + i] * b[i * n + col];
        __syncthreads();
        sum = ADD(sum, part[threadIdx.y][threadIdx.x]);
        __syncthreads();
    }
    c[at(row, n, col)] = sum;
}
"""
TILE = """
#pragma once
#define TILE 8
__device__ inline int at(int row, int pitch, int col) { return row * pitch + col; }
"""
CARD = """
format = 1
name = "product"
source = "product.cu"
entry = "product"
computes = { operation = "gemm" }
arguments = [
    { name = "a", role = "a", dtype = "f32" },
    { name = "b", role = "b", dtype = "f32" },
    { name = "c", role = "c", dtype = "f32", direction = "out" },
    { name = "m", dtype = "s32", value = "M" },
    { name = "n", dtype = "s32", value = "N" },
    { name = "k", dtype = "s32", value = "K" },
]
launch = { grid = ["N/8", "M/8"], block = [8, 8] }
cases = [{ name = "small", M = 16, N = 24, K = 8 }]
"""


def product(folder: Path, *edits: tuple[str, str], source: str = GEMM, card: str = CARD) -> Card:
    """A small GEMM in a folder, with parts of its source or header replaced."""
    texts = {"product.cu": source, "tile.h": TILE, "product.toml": card}
    for old, new in edits:
        assert any(old in text for text in texts.values()), old
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return open_subject(folder / "product.toml")
