"""Deleted WMMA calls and compiler traps: what must be named, and the look-alikes that must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.model import CompileNote
from wmmadiag.compile.options import CompileOptions

HEAD = """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> FragA;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> FragB;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> FragC;
"""
PRODUCT = """
  FragA fa; FragB fb; FragC fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
"""

MUST_FIRE = {
    "store-to-local-array": (
        "deleted-wmma-store",
        "__global__ void k(const half *a, const half *b, float *c) {" + PRODUCT + "  float t[256];\n"
        "  wmma::store_matrix_sync(t, fc, 16, wmma::mem_row_major);  // LOST\n"
        "  for (int i = 0; i < 8; i++) c[threadIdx.x * 8 + i] = t[threadIdx.x * 8 + i];\n}\n",
    ),
    "store-to-local-array-in-a-branch": (
        "deleted-wmma-store",
        "__global__ void k(const half *a, const half *b, float *c, int n) {" + PRODUCT + "  float t[16][16];\n"
        "  if (n > 3) {\n"
        "    wmma::store_matrix_sync(&t[0][0], fc, 16, wmma::mem_row_major);  // LOST\n"
        "    c[threadIdx.x] = t[threadIdx.x / 16][n & 15];\n"
        "  }\n  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n",
    ),
    "in-an-inlined-template-function": (
        "deleted-wmma-store",
        "template <int LD> __device__ __forceinline__ float corner(const FragC &f) {\n  float t[LD * 16];\n"
        "  wmma::store_matrix_sync(t, f, LD, wmma::mem_row_major);  // LOST\n  return t[threadIdx.x];\n}\n"
        "__global__ void k(const half *a, const half *b, float *c) {"
        + PRODUCT
        + "  c[threadIdx.x] = corner<16>(fc);\n}\n",
    ),
    "through-a-macro": (
        "deleted-wmma-store",
        "#define STORE(p, f) \\\n  wmma::store_matrix_sync(p, f, 16, wmma::mem_row_major)\n"
        "__global__ void k(const half *a, const half *b, float *c) {" + PRODUCT + "  float t[256];\n"
        "  STORE(t, fc);  // LOST\n  c[threadIdx.x] = t[threadIdx.x];\n}\n",
    ),
    "call-over-several-lines": (
        "deleted-wmma-store",
        "__global__ void k(const half *a, const half *b, float *c) {" + PRODUCT + "  float t[256];\n"
        "  nvcuda::wmma::store_matrix_sync(  // LOST\n      t,\n      fc, 16,\n      wmma::mem_row_major);\n"
        "  c[threadIdx.x] = t[threadIdx.x];\n}\n",
    ),
    "load-from-local-array": (
        "deleted-wmma-load",
        "__global__ void k(const half *a, const half *b, float *c) {\n  FragA fa; FragB fb; FragC fc;\n"
        "  half t[256];\n  for (int i = 0; i < 256; i++) t[i] = a[i];\n  wmma::fill_fragment(fc, 0.0f);\n"
        "  wmma::load_matrix_sync(fa, t, 16);  // LOST\n  wmma::load_matrix_sync(fb, b, 16);\n"
        "  wmma::mma_sync(fc, fa, fb, fc);\n  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n",
    ),
    "one-of-two-kernels": (
        "deleted-wmma-store",
        "__global__ void good(const half *a, const half *b, float *c) {"
        + PRODUCT
        + "  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n"
        "__global__ void bad(const half *a, const half *b, float *c) {" + PRODUCT + "  float t[256];\n"
        "  wmma::store_matrix_sync(t, fc, 16, wmma::mem_row_major);  // LOST\n  c[threadIdx.x] = t[threadIdx.x];\n}\n",
    ),
}

MUST_NOT_FIRE = {
    "store-to-shared": "__global__ void k(const half *a, const half *b, float *c) {"
    + PRODUCT
    + "  __shared__ __align__(32) float t[256];\n  wmma::store_matrix_sync(t, fc, 16, wmma::mem_row_major);\n"
    "  __syncwarp();\n  c[threadIdx.x] = t[threadIdx.x];\n}\n",
    "pointer-to-shared-through-a-local-variable": "struct Tiles { float *p; };\n"
    "__global__ void k(const half *a, const half *b, float *c, int n) {"
    + PRODUCT
    + "  extern __shared__ float raw[];\n  Tiles t[2] = {{raw}, {raw + 256}};\n"
    "  wmma::store_matrix_sync(t[n & 1].p, fc, 16, wmma::mem_row_major);\n  c[0] = raw[n];\n}\n",
    "behind-a-false-constexpr-if": "__global__ void k(const half *a, const half *b, float *c) {"
    + PRODUCT
    + "  if constexpr (sizeof(float) == 2) {\n    float t[256];\n"
    "    wmma::store_matrix_sync(t, fc, 16, wmma::mem_row_major);\n    c[0] = t[1];\n  }\n"
    "  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n",
    "behind-a-constant-condition": "constexpr bool kDebug = false;\n"
    "__global__ void k(const half *a, const half *b, float *c) {"
    + PRODUCT
    + "  const int level = kDebug ? 2 : 0;\n  if (level > 1) {\n    float t[256];\n"
    "    wmma::store_matrix_sync(t, fc, 16, wmma::mem_row_major);\n    c[0] = t[1];\n  }\n"
    "  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n",
    "behind-a-macro": "__global__ void k(const half *a, const half *b, float *c) {"
    + PRODUCT
    + "#ifdef DEBUG_TILE\n  float t[256];\n  wmma::store_matrix_sync(t, fc, 16, wmma::mem_row_major);\n#endif\n"
    "  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n",
    "template-branch-that-is-not-instantiated": "template <bool LOCAL>\n"
    "__global__ void k(const half *a, const half *b, float *c) {"
    + PRODUCT
    + "  if (LOCAL) {\n    float t[256];\n    wmma::store_matrix_sync(t, fc, 16, wmma::mem_row_major);\n"
    "    c[0] = t[threadIdx.x];\n  } else {\n    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n  }\n}\n"
    "void launch(float *c) { k<false><<<1, 32>>>(0, 0, c); }\n",
    "function-that-no-kernel-calls": "__device__ inline float unused(const FragC &f) {\n  float t[256];\n"
    "  wmma::store_matrix_sync(t, f, 16, wmma::mem_row_major);\n  return t[0];\n}\n"
    "__global__ void k(const half *a, const half *b, float *c) {"
    + PRODUCT
    + "  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n",
    "in-a-comment-or-a-string": "__global__ void k(const half *a, const half *b, float *c) {"
    + PRODUCT
    + "  // wmma::store_matrix_sync(t, fc, 16, wmma::mem_row_major);\n"
    '  if (c == nullptr) printf("store_matrix_sync(t)");\n'
    "  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n",
    "unrolled-loop-and-duplicated-call": "__global__ void k(const half *a, const half *b, float *c, int n) {"
    + PRODUCT
    + "#pragma unroll\n  for (int i = 0; i < 4; i++) {\n"
    "    wmma::load_matrix_sync(fa, a + 16 * i, 64);\n    wmma::load_matrix_sync(fb, b + 16 * i, 64);\n"
    "    wmma::mma_sync(fc, fa, fb, fc);\n  }\n"
    "  if (n) wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n"
    "  else wmma::store_matrix_sync(c + n, fc, 32, wmma::mem_col_major);\n}\n",
    "user-function-of-the-same-name": "namespace mine { struct F {}; \n"
    "__device__ void store_matrix_sync(float *p, F) { *p = 1.0f; } }\n"
    "__global__ void k(float *c) { float t[4]; mine::store_matrix_sync(t, mine::F{}); *c = t[0]; }\n",
    "own-trap": "__global__ void k(float *c, int n) { if (n > 3) __trap(); *c = 1.0f; }\n",
    "own-trap-in-assembly": '__device__ void die() {\n  asm volatile("trap;");\n}\n'
    "__global__ void k(float *c, int n) {\n  if (n > 3)\n    die();\n  *c = 1.0f;\n}\n",
    "trap-of-a-library-header": "#include <cooperative_groups.h>\n"
    "__global__ void k(float *c) { cooperative_groups::this_grid().sync(); *c = 1.0f; }\n",
    "assert": "#include <cassert>\n__global__ void k(float *c, int n) { assert(n < 3); *c = 1.0f; }\n",
}


def notes_of(text: str, **options: object) -> tuple[CompileNote, ...]:
    return compile_text(HEAD + text, "k.cu", CompileOptions(**options)).notes  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MUST_FIRE)
def test_must_fire(name: str) -> None:
    kind, text = MUST_FIRE[name]
    line = next(number for number, line in enumerate((HEAD + text).split("\n"), 1) if "// LOST" in line)
    found = [(note.kind, note.place.file, note.place.line) for note in notes_of(text) if note.place is not None]
    assert found == [(kind, "k.cu", line)]


@pytest.mark.parametrize("name", MUST_NOT_FIRE)
def test_must_not_fire(name: str) -> None:
    assert notes_of(MUST_NOT_FIRE[name]) == ()


@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
def test_on_other_architectures(arch: str) -> None:
    kind, text = MUST_FIRE["store-to-local-array-in-a-branch"]
    assert [note.kind for note in notes_of(text, arch=arch)] == [kind]
    assert notes_of(MUST_NOT_FIRE["unrolled-loop-and-duplicated-call"], arch=arch) == ()


def test_message_names_call_and_reason() -> None:
    note = notes_of(MUST_FIRE["store-to-local-array"][1])[0]
    assert "store_matrix_sync" in note.message
    assert "thread-local array" in note.message


def test_unused_result_is_said_differently() -> None:
    text = """__global__ void k(const double *a, double *c) {
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> f;
  wmma::load_matrix_sync(f, a, 4);
  *c = 1;
}
"""
    (note,) = notes_of(text)
    assert (note.kind, note.place and note.place.line) == ("unused-wmma-call", HEAD.count("\n") + 3)
    assert "thread-local" not in note.message


def test_call_in_a_header_is_named_there(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    Path("tile.cuh").write_text(
        "#pragma once\n__device__ inline float corner(const FragC &f) {\n  float t[256];\n"
        "  wmma::store_matrix_sync(t, f, 16, wmma::mem_row_major);\n  return t[threadIdx.x];\n}\n"
    )
    text = '#include "tile.cuh"\n__global__ void k(const half *a, const half *b, float *c) {' + PRODUCT
    note = notes_of(text + "  c[threadIdx.x] = corner(fc);\n}\n")[0]
    assert note.place is not None
    assert (note.kind, note.place.file, note.place.line) == ("deleted-wmma-store", "tile.cuh", 4)
    assert note.place.inlined_at is not None
    assert note.place.inlined_at.file == "k.cu"


def test_one_bad_instantiation_beside_a_good_one() -> None:
    text = """template <bool LOCAL> __global__ void k(const half *a, const half *b, float *c) {
  __shared__ __align__(32) float s[256];
  float t[256];
  float *p = LOCAL ? t : s;
"""
    text += (
        PRODUCT + "  wmma::store_matrix_sync(p, fc, 16, wmma::mem_row_major);  // LOST\n  c[threadIdx.x] = p[1];\n}\n"
    )
    line = next(number for number, line in enumerate((HEAD + text).split("\n"), 1) if "// LOST" in line)
    assert notes_of(text, name_expressions=("k<false>",)) == ()
    (note,) = notes_of(text, name_expressions=("k<false>", "k<true>"))
    assert (note.kind, note.place and note.place.line) == ("deleted-wmma-store", line)


def test_debug_code_is_not_judged() -> None:
    assert notes_of(MUST_FIRE["store-to-local-array"][1], debug=True) == ()
