"""What operators make of a small kernel, as texts to compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from wmmadiag.diagnose.changes import Change, Texts, applied
from wmmadiag.diagnose.operators.places import program
from wmmadiag.diagnose.operators.registry import all_operators, changes

HEAD = """#include <mma.h>
using namespace nvcuda;
struct Sizes { int rows, cols; long stride; float scale; };
template <int BM> struct Tile { static constexpr int pitch = BM + 8; static constexpr int rows = BM; };
__device__ int place(int r, int c) { return r * 64 + (c ^ (r & 7)); }
__device__ void copy4(float* to, const float* from) { *to = *from; }
__device__ void copy4t(float* to, const float* from) { *to = *from; }
__device__ void unreached(int n) { int x = n + 41; }
"""
PARAMETERS = "const float* a, const float* b, float* out, int m, int n, Sizes sizes, float alpha"


def kernel(body: str, head: str = "") -> str:
    """A kernel with this body, and what it may call."""
    return f"{HEAD}{head}\ntemplate <int BM> __global__ void k({PARAMETERS}) {{\n{body}\n}}\n"


def made(body: str, operator: str, head: str = "") -> list[tuple[Change, str]]:
    """The changes of one operator, each with the kernel's text that it makes, on one line."""
    source = kernel(body, head)
    texts = {"k.cu": source.encode()}
    found = []
    for change in _all(texts, operator):
        if change.operator == operator:
            text = applied(texts, [change])["k.cu"].decode()
            found.append((change, squeezed(text)))
    return found


def _all(texts: Texts, operator: str) -> Iterator[Change]:
    """The changes of a round; of the second one also what the first one makes."""
    run = all_operators(wider=True).get(operator)
    if run is None:
        yield from changes(texts, "k<64>")
        return
    for draft in run(program(texts, "k<64>")):
        if applied(texts, [Change(operator, draft.edits, draft.kind, draft.role, draft.note)]) != texts:
            yield Change(operator, draft.edits, draft.kind, draft.role, draft.note)


def yields(body: str, operator: str, wanted: str, head: str = "") -> bool:
    """Whether an operator turns a kernel's body into one with `wanted` in it, which it had not before."""
    assert squeezed(wanted) not in squeezed(kernel(body, head)), "it stands there already"
    return any(squeezed(wanted) in text for _, text in made(body, operator, head))


def each(rows: Sequence[tuple[str, str, str]]) -> pytest.MarkDecorator:
    """A test for each operator, body and text that is wanted of it."""
    return pytest.mark.parametrize(
        ("operator", "body", "wanted"), rows, ids=[f"{operator}: {text}" for operator, _, text in rows]
    )


def squeezed(text: str) -> str:
    """A text without blanks where they say nothing."""
    return " ".join(text.split())
