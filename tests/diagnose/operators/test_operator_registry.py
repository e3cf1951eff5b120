"""All operators together: what they may know, the order of changes, places, files, time."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from changed_texts import kernel, yields

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import applied
from wmmadiag.diagnose.operators import registry
from wmmadiag.diagnose.operators.places import program
from wmmadiag.diagnose.operators.registry import all_operators, changes

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "wmmadiag/diagnose/operators"
SOURCES = {
    "kernels/gemm/kernel.cu": "gemm_wmma<F16>",
    "tests/diagnose/public_style/fa2_regs.cu": "flash_fwd_kernel",
    "tests/diagnose/blind/hgemm_swz.cu": "hgemm_tn<64, 64, 3>",
}
BODY = """__shared__ float s[64]; const int t = threadIdx.x;
for (int i = t; i < n; i += 64) { s[t] = a[i * m]; }
__syncthreads();
if (t < m) out[t] = s[t] * alpha;"""


def entry_of(path: str) -> str:
    return SOURCES[path]


def test_no_operator_knows_an_operation_or_a_kernel_of_ours() -> None:
    kernels = {path.stem for path in ROOT.glob("kernels/*/wrong/*.cu")} | {
        path.stem for path in ROOT.glob("tests/diagnose/*/*.cu")
    }
    operations = "softmax|attention|gemm|matmul|flash|causal|head_dim|seqlen|qk|kv|conv|gelu|rope|bias|logits?"
    known = re.compile(rf"\b(?:{operations}|{'|'.join(sorted(kernels))})\b", re.IGNORECASE)
    for path in PACKAGE.rglob("*.py"):
        found = known.findall(path.read_text("utf-8"))
        assert found == [], f"{path.name}: {found}"


def test_every_operator_says_what_it_does() -> None:
    assert len(all_operators()) >= 30 and not set(all_operators()) & set(all_operators(wider=True))
    for name, run in [*all_operators().items(), *all_operators(wider=True).items()]:
        assert run.__doc__ and run.__name__ == name


def test_a_second_operator_of_one_name_is_refused() -> None:
    def variable(program: object) -> None:
        """Another one."""

    with pytest.raises(ValueError, match="two operators"):
        registry.operator(variable)  # type: ignore[arg-type]


@pytest.mark.parametrize("wider", [False, True])
@pytest.mark.parametrize("path", SOURCES)
@pytest.mark.corpus
def test_changes_of_real_kernels_make_each_text_once_and_parse(path: str, wider: bool) -> None:
    data = (ROOT / path).read_bytes()
    texts = {path: data}
    found = list(changes(texts, entry_of(path), wider=wider))
    assert len(found) > 500
    before = len(parse(data).errors())
    made = set()
    for change in found:
        text = applied(texts, [change])[path]
        assert text != data
        made.add(text)
    assert len(made) == len(found)
    for change in found[:: max(1, len(found) // 60)]:
        text = applied(texts, [change])[path]
        assert len(parse(text).errors()) <= before, change


PIECES = "".join(f"int x{at} = i * n; out[x{at}] = a[min(n, x{at})];\n" for at in range(12))


@pytest.mark.parametrize("wider", [False, True])
def test_changes_are_made_in_one_order(wider: bool) -> None:
    """In other processes, too: `test_changes.py`."""
    path = next(iter(SOURCES))
    pieces = kernel(f"for (int i = 0; i < m; ++i) {{ {PIECES} }}")
    for text, entry in (((ROOT / path).read_bytes(), entry_of(path)), (pieces.encode(), "k")):
        found, again = (list(changes({path: text}, entry, wider=wider)) for _ in range(2))
        assert found == again


def test_expressions_are_whole_and_insertions_are_empty() -> None:
    data = (ROOT / "kernels/gemm/kernel.cu").read_bytes()
    source = parse(data)
    nodes = set()
    open_ones = [source.root]
    while open_ones:
        node = open_ones.pop()
        nodes.add((node.start_byte, node.end_byte))
        open_ones += node.children
    for change in changes({"kernel.cu": data}, entry_of("kernels/gemm/kernel.cu")):
        for edit in change.edits:
            if change.kind == "expression":
                assert (edit.start, edit.end) in nodes, change
            elif change.kind == "insertion":
                assert edit.start == edit.end and edit.text.strip().endswith((";", "}")), change


def copied_texts(body: str) -> list[str]:
    texts = {"k.cu": kernel(body).encode()}
    return [
        " ".join(applied(texts, [one])["k.cu"].decode().split())
        for one in changes(texts, "k")
        if one.operator == "copied"
    ]


def test_a_statement_that_stands_twice_is_changed_in_both_places() -> None:
    body = """float x = a[0], y = b[0];
for (int d = 8; d > 0; d >>= 1) x += __shfl_xor_sync(~0u, x, d);
for (int d = {}; d > 0; d >>= 1) y = fmaxf(y, __shfl_xor_sync(~0u, y, d));
out[0] = x + y;"""
    both = re.compile(r"d >>= 2\) .* d >>= 2\)")
    assert any(both.search(one) for one in copied_texts(body.format(8)))  # 16 for 8 is number_everywhere
    assert not copied_texts(body.format(4))


def test_only_the_places_asked_for_are_changed() -> None:
    source = kernel(BODY)
    texts = {"k.cu": source.encode()}
    start = source.index("out[t]")
    near = list(changes(texts, "k", places=[("k.cu", start, start + 20)]))
    everything = list(changes(texts, "k"))
    assert 0 < len(near) < len(everything) / 2
    block = source.index("if (t < m)"), len(source)
    for change in near:
        assert any(edit.end >= block[0] - 60 for edit in change.edits), change


def test_what_a_header_holds_is_changed_there() -> None:
    texts = {
        "tile.h": b"constexpr int kPitch = 72;\n__device__ int at(int r, int c) { return r * kPitch + c; }\n",
        "k.cu": b'#include "tile.h"\n__global__ void k(float* out, int n) { out[at(threadIdx.x, n)] = kPitch; }\n',
    }
    found = list(changes(texts, "k"))
    assert {edit.file for change in found for edit in change.edits} == {"tile.h", "k.cu"}
    made = {applied(texts, [change])["tile.h"].decode() for change in found}
    assert any("kPitch = 64" in text or "kPitch = 36" in text for text in made)
    assert any("c * kPitch + r" in text for text in made)


def test_macros_that_are_values_are_changed_statically() -> None:
    texts = {"k.cu": b"#define AT(r, c) ((r) * 72 + \\\n    (c))\n#define UNUSED 5\n"
             b"__global__ void k(float* out) { out[AT(threadIdx.x, 3)] = 1.0f; }\n"}  # fmt: skip
    found = [change for change in changes(texts, "k") if change.edits[0].start < 50]
    assert found and {change.kind for change in found} == {"static"}
    assert any(b"(r) * 36" in applied(texts, [change])["k.cu"] for change in found)
    assert not any(b"UNUSED 6" in applied(texts, [change])["k.cu"] for change in changes(texts, "k"))


def test_a_macro_of_statements_is_changed_while_it_runs_and_reads_names_where_it_stands() -> None:
    source = (
        "struct Sizes { int r, s, t; };\n"
        "__global__ void k(float* out, Sizes z) {\n    const int rs = z.r * z.s;\n"
        "#define PUT(i) \\\n    for (int j = 0; j < 4; ++j) { \\\n        out[(i) % rs / z.r + j] = 0.f; \\\n    }\n"
        "    PUT(threadIdx.x)\n}\n"
    )
    texts = {"k.cu": source.encode()}
    start, end = source.index("#define"), source.index("\n    PUT(")
    inside = [one for one in changes(texts, "k") if all(start <= edit.start <= edit.end <= end for edit in one.edits)]
    found = {applied(texts, [one])["k.cu"].decode(): one for one in inside}
    member = found[source.replace("rs / z.r", "rs / z.s")]
    assert member.kind == "expression" and member.operator == "variable"
    assert {"statement", "insertion"} <= {one.kind for one in found.values()}
    for text in found:  # the macro stays one directive
        rows = text[text.index("#define") : text.index("\n    PUT(")].splitlines()
        assert all(row.endswith("\\") for row in rows[:-1]), text


def test_a_macro_that_is_called_is_no_number() -> None:
    texts = {"k.cu": b"#define PUT(i) { out[i] = SIZE; }\n__global__ void k(float* out, int n) {\n    PUT(n)\n"
             b"    PUT(n + 1)\n}\n"}  # fmt: skip
    held = program(texts, "k")
    kinds = {one.text: one.type.kind for one in held.all_expressions()}
    assert kinds["PUT"] == "unknown" and kinds["SIZE"] == "integer"


def test_a_macro_that_is_made_of_numbers_by_name_is_one() -> None:
    head = "#define N 64\n#define HALF 0.5f\n#define WIDE (N + 4)\n#define LESS (HALF * HALF)\n#define OTHER (n * N)\n"
    known = program({"k.cu": kernel("out[0] = N;", head).encode()}, "k").reader.constants
    assert {name: kind.kind for name, kind in known.items()} == {
        "N": "integer", "HALF": "float", "WIDE": "integer", "LESS": "float"
    }  # fmt: skip
    body = "out[threadIdx.x * N] = a[threadIdx.x * WIDE] * a[threadIdx.y];"
    assert yields(body, "variable", "out[threadIdx.x * WIDE]", head)
    assert yields("float x = alpha; out[0] = x;", "factor_more", "float x = alpha * HALF;", head)  # which nothing names


def test_a_value_that_the_compiler_must_know_is_changed_statically() -> None:
    source = kernel("const int d = 32; const int e = 16; float x[d]; x[e] = a[0]; out[0] = x[threadIdx.x];")
    texts = {"k.cu": source.encode()}
    numbers = [one for one in changes(texts, "k") if one.operator == "number"]
    kinds = {
        name: {one.kind for one in numbers if name in applied(texts, [one])["k.cu"].decode()}
        for name in ("d = 64", "e = 8")
    }
    assert kinds == {"d = 64": {"static"}, "e = 8": {"expression"}}


def test_an_entry_that_no_file_defines_is_refused() -> None:
    with pytest.raises(ValueError, match="defines the kernel lost"):
        program({"k.cu": kernel(BODY).encode()}, "lost<3>")


def test_text_that_no_compiler_takes_raises_nothing() -> None:
    for broken in (b"__global__ void k(int n) { if (n < { out[ = ; }", b"__global__ void k( { x = y +; for (;;"):
        try:
            list(changes({"k.cu": broken}, "k"))
        except ValueError as problem:
            assert "defines the kernel" in str(problem)


@pytest.mark.slow
def test_the_largest_kernel_is_read_and_changed_soon() -> None:
    path = "kernels/attention_fused/kernel.cu"
    texts = {path: (ROOT / path).read_bytes()}
    took = []
    for _ in range(4):  # the least of them: what else runs slows both down
        plain = _seconds_of_plain_python()
        begun = time.process_time()
        list(changes(texts, "attention_fused"))
        took.append((time.process_time() - begun) / plain)
    assert min(took) < 14


def _seconds_of_plain_python() -> float:
    begun = time.process_time()
    held: dict[tuple[int, str], int] = {}
    for number in range(400_000):
        held[number & 1023, str(number & 63)] = held.get((number & 1023, ""), 0) + number
    return time.process_time() - begun
