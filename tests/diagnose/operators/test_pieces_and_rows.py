"""Where pieces begin and end, rows that lie apart, names for one another, and values that are made otherwise."""

from __future__ import annotations

import pytest
from changed_texts import kernel, yields

from wmmadiag.diagnose.operators.registry import changes

WARP = "const int w = threadIdx.x / 32, t = threadIdx.x % 32;"
HALVES = f"{WARP} for (int k = w * (n / 2); k < n; k += 16) out[k] = a[k];"
BEGUN = f"{WARP} const int first = w * n; for (int k = first; k < m; k += 16) out[k] = a[k];"
GROUPS = "const int g = blockIdx.x / m, rows = n; out[g * n + blockIdx.x % rows] = a[0];"
PROBLEM = "struct Problem { int R, S, T, U, V, W, X, Y, Z, P, Q; };\n"
FILTER = "Problem p{n, m, n, m, n, m, n, m, n, m, n}; int s = threadIdx.x; out[p.Q] = s < p.R ? a[p.Y] : a[p.Z];"
SCRATCH = f"{WARP} __shared__ float s[512]; float* x = s; x[t * n + m] = a[t]; out[w] = x[t];"
MADE = "int i = threadIdx.x; float v = alpha * a[i]; v += b[i]; out[i] = fmaxf(v, 0.0f);"
USED = "int i = threadIdx.x; float v = fmaxf(alpha * a[i], 0.0f); v += b[i]; out[i] = v;"
TOGGLED = "int c = 0; for (int i = 0; i < m; ++i) { out[i] = a[c * n + i]; c ^= 1; }"

YIELDS = [
    ("to_piece_end", HALVES, "k < w * (n / 2) + n / 2"),
    ("to_piece_end", BEGUN, "k < first + n"),
    ("remaining", GROUPS, "rows = min(n, m - g * n)"),
    ("term_more", SCRATCH, "float* x = s + w * n"),
    ("exchange", f"{WARP} out[w * 16 * n + t * 8] = a[t];", "out[t * 16 * n + w * 8]"),
    ("next_value", TOGGLED, "a[(c ^ 1) * n + i]"),
    ("next_value", TOGGLED.replace("c ^= 1", "c = (c + 1) % m"), "a[(c + 1) % m * n + i]"),
    ("nudged", "int i = threadIdx.x; out[i] = expf(i * alpha);", "expf((i + 1) * alpha)"),
    ("applied_elsewhere", MADE, "v = fmaxf(alpha * a[i], 0.0f); v += b[i]; out[i] = v;"),
    ("applied_elsewhere", USED, "v = alpha * a[i]; v += b[i]; out[i] = fmaxf(v, 0.0f);"),
]  # fmt: skip
NOTHING = [
    ("to_piece_end", "for (int k = 0; k < n; k += 16) out[k] = a[k];", "k < 0"),  # all begin there
    ("remaining", GROUPS.replace("g * n", "g * 8"), "m - g"),  # pieces are of another size
    ("term_more", SCRATCH.replace("t * n + m", "t * 8 + m"), "s + w * n"),  # its rows do not lie so far apart
    ("exchange", f"{WARP} out[w * n + t * n] = a[t];", "out[t * n + w * n]"),  # that is the same sum
    ("next_value", TOGGLED.replace("c ^= 1", "c = m"), "a[m * n + i]"),  # it does not go on from what it was
    ("nudged", "int i = threadIdx.x; out[i] = a[i * n];", "(i + 1) * n"),  # its product is
    # What is added after it was declared is not known there.
    ("applied_elsewhere", "float v = a[0]; float c = b[0]; out[0] = v * c;", "v = a[0] * c"),
    ("applied_elsewhere", "float v = a[0]; out[0] = sqrtf(v) > 1.0f ? 0.0f : 1.0f;", "v = sqrtf(a[0]) > 1.0f"),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "body", "text"), YIELDS)
def test_operator_yields(operator: str, body: str, text: str) -> None:
    assert yields(body, operator, text)


@pytest.mark.parametrize(("operator", "body", "text"), NOTHING)
def test_operator_does_not_yield(operator: str, body: str, text: str) -> None:
    assert not yields(body, operator, text)


def test_what_is_counted_by_a_name_of_the_same_parts_stays_below_it() -> None:
    """Of a dozen members the one that is written as the counter is."""
    assert yields(FILTER, "variable", "s < p.S ?", PROBLEM)
    assert not yields(FILTER.replace("int s", "int e").replace("s < p.R", "e < p.R"), "variable", "e < p.S ?", PROBLEM)


def test_the_other_names_come_in_the_second_round() -> None:
    source = kernel(FILTER.replace("int s", "int e").replace("s < p.R", "e < p.R"), PROBLEM).encode()
    first = list(changes({"k.cu": source}, "k"))
    second = [one for one in changes({"k.cu": source}, "k", wider=True, known=first) if one.operator == "any_name"]
    texts = {one.edits[0].text for one in second if source[one.edits[0].start : one.edits[0].end] == b"p.R"}
    assert "p.S" in texts


def test_any_size_stands_for_a_number_in_the_second_round() -> None:
    """A number that is no size, such as one that is added, has no names."""
    sizes = "const int p = m, q = n, r = m + 1, s = n + 1, t = m + 2, u = n + 2;"
    used = "".join(f" out[e * {name} + i] = a[i];" for name in "pqrstu")
    source = kernel(f"int e = threadIdx.x, i = blockIdx.x; {sizes}{used} out[e * 24 + i] = a[i + 7];").encode()

    def of(number: str, *, wider: bool) -> set[str]:
        made = changes({"k.cu": source}, "k", wider=wider)
        edits = [one.edits[0] for one in made if one.operator in ("name_for_number", "any_name")]
        return {one.text for one in edits if source[one.start : one.end] == number.encode()}

    first, second = of("24", wider=False), of("24", wider=True)
    assert 0 < len(first) < len(second) and not first & second
    assert not of("7", wider=True)


@pytest.mark.parametrize("comment", ["  // per step", "  /* per step */", ""])
def test_a_macro_is_read_without_its_comment(comment: str) -> None:
    assert yields("out[STEP * threadIdx.x] = a[0];", "number", "#define STEP 16", f"#define STEP 32{comment}\n")
