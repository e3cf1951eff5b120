"""Which lines of a source are its softmax, and the changes that undo a known fault of one."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply
from wmmadiag.diagnose.mends.softmax import mends
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.diagnose.source.softmax import key_step, softmax

ROWS = """__global__ void k(const float* in, float* out, int keys, int rows, bool hide, float mul) {
  __shared__ float s[16][32], o[16][64], p[16][32];
  float top = -1e30f, den = 0.f;
  const int r = threadIdx.x / 2, first = blockIdx.x * 16;
  for (int t = 0; t < keys; t += 32) {
    float now = top;
    for (int c = 0; c < 32; ++c) if (t + c < keys) now = fmaxf(now, s[r][c] * mul);
    now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
    const float shrink = __expf(top - now);
    float part = 0.f;
    for (int c = 0; c < 32; ++c) {
      const float w = __expf(s[r][c] * mul - now);
      p[r][c] = w;
      part += w;
    }
    den = den * shrink + part;
    top = now;
  }
  if (first + r < rows)
    for (int d = threadIdx.x & 1; d < 64; d += 2) out[(first + r) * 64 + d] = o[r][d] / den;
}
"""

COPIES = """__global__ void k(float* out, int n) {
  extern __shared__ float raw[];
  float *acc = raw, *stat = raw + 1024, *sc = raw + 2048;
  const int tid = threadIdx.x;
  for (int t = 0; t < n; t += 32) {
    if (tid < 16) {
      float m = stat[tid];
      for (int j = 0; j < 32; ++j) m = fmaxf(m, sc[tid * 36 + j]);
      const float f = expf(stat[tid] - m);
      float sum = 0.f;
      for (int j = 0; j < 32; ++j) sum += expf(sc[tid * 36 + j] - m);
      stat[tid] = m;
      stat[16 + tid] = (stat[16 + tid] + sum) * f;
      stat[32 + tid] = f;
    }
    __syncthreads();
  }
  for (int i = tid; i < 16 * 64; i += blockDim.x) {
    int r = i / 64, d = i % 64;
    out[i] = acc[r * 68 + d] / stat[16 + r];
  }
}
"""

REGISTERS = """__device__ float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__global__ void k(float* out, int keys, int row) {
  float s[4][4], acc[8][4];
  float m0 = -1e30f, m1 = -1e30f, l0 = 0.f, l1 = 0.f;
  for (int t = 0; t < keys; t += 32) {
    float a0 = m0, a1 = m1;
    for (int n = 0; n < 4; ++n)
      for (int e = 0; e < 4; ++e) {
        const int key = t + n * 8 + e, query = threadIdx.x / 4;
        s[n][e] = key >= keys || key >= query ? -1e30f : s[n][e];
        if (e < 2) a0 = fmaxf(a0, s[n][e]); else a1 = fmaxf(a1, s[n][e]);
      }
    const float c0 = ex2(m0 - a0), c1 = ex2(m1 - a1);
    m0 = a0, m1 = a1;
    l0 *= c0, l1 *= c1;
    for (int n = 0; n < 4; ++n) {
      s[n][0] = ex2(s[n][0] - m0), s[n][2] = ex2(s[n][2] - m1);
      l0 += s[n][0], l1 += s[n][2];
    }
  }
  for (int n = 0; n < 8; ++n) out[n] = acc[n][0] / l0 + acc[n][2] / l1;
}
"""


def line(text, part):
    return text[: text.index(part)].count("\n") + 1


def test_parts_of_a_softmax_with_rows_in_shared_memory():
    parts = softmax(read_source(ROWS))
    assert [call.line for call in parts.weights] == [line(ROWS, "const float w")]
    assert [call.line for call in parts.factors] == [line(ROWS, "const float shrink")]
    assert parts.sum_names == {"part", "den"}
    assert parts.maxima == (line(ROWS, "if (t + c < keys)"), line(ROWS, "__shfl_xor_sync"))
    assert parts.sums == (line(ROWS, "part += w"), line(ROWS, "den = den"))
    assert parts.divisions == (line(ROWS, "/ den"),)


def test_parts_of_a_softmax_in_registers_behind_a_wrapper_of_ex2():
    parts = softmax(read_source(REGISTERS))
    assert len(parts.weights) == len(parts.factors) == 2
    assert parts.sum_names == {"l0", "l1"}
    assert parts.masks == (line(REGISTERS, "key >= keys"),)


def test_a_statistic_and_a_sum_in_one_array_are_told_apart():
    parts = softmax(read_source(COPIES))
    assert parts.sum_names == {"sum", "stat[16+tid]"}
    assert [call.line for call in parts.factors] == [line(COPIES, "const float f")]


def test_no_softmax_in_a_product():
    source = "__global__ void k(float* c, const float* a) { for (int i = 0; i < 9; ++i) c[i] += fmaxf(a[i], 0.f); }"
    assert not softmax(read_source(source))


@pytest.mark.parametrize(
    ("source", "hypothesis", "fault", "wanted"),
    [
        (
            ROWS,
            "rescale-missing",
            "alpha-missing-of-output",
            "for (int d = threadIdx.x & 1; d < 64; d += 2) { o[r][d] *= shrink; }",
        ),
        (
            COPIES,
            "rescale-missing",
            "alpha-missing-of-output",
            "{ int r = i / 64, d = i % 64; acc[r * 68 + d] *= stat[32+r]; }\n    __syncthreads();",
        ),
        (
            REGISTERS,
            "rescale-missing",
            "alpha-missing-of-output",
            "for (int n = 0; n < 8; ++n) { acc[n][0] *= c0; acc[n][2] *= c1; }",
        ),
        (COPIES, "rescale-missing", "alpha-after-tile-of-sum", "stat[16 + tid] = stat[16 + tid] * f + sum;"),
        (ROWS, "rescale-missing", "alpha-inverted", "__expf(now - top)"),
        (ROWS, "tail-masking", "padding-in-sum", "w = (t + c < keys ? __expf(s[r][c] * mul - now) : 0.0f);"),
        (REGISTERS, "causal-mask", "causal-strict", "key >= keys || key > query ?"),
        (REGISTERS, "causal-mask", "causal-local-key", "key >= query + t ?"),
    ],
)
def test_a_known_fault_is_undone_in_its_part(source, hypothesis, fault, wanted):
    model = read_source(source)
    texts = [apply(source, edit) for edit in mends(model, softmax(model), hypothesis, fault, {})]
    assert any(wanted in text for text in texts)
    assert len(texts) <= 8


def test_a_softmax_over_finished_scores_is_not_online():
    source = """__global__ void k(float* out, float* s, int n) {
      mma_sync(a, b, c, d);
      float m = -1e30f, l = 0.f;
      for (int j = threadIdx.x; j < n; j += 32) m = fmaxf(m, s[j]);
      for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
      for (int j = threadIdx.x; j < n; j += 32) l += expf(s[j] - m);
      for (int o = 8; o > 0; o /= 2) l += __shfl_xor_sync(~0u, l, o);
      out[0] = s[0] / l;
    }"""
    model = read_source(source)
    parts = softmax(model)
    assert not parts.online
    texts = [apply(source, edit) for edit in mends(model, parts, "reduction", "", {})]
    assert [text for text in texts if "int o = 16; o > 0; o /= 2) l +=" in text]
    assert softmax(read_source(ROWS)).online


def test_a_sum_that_is_not_reduced_goes_the_way_of_the_maximum():
    model = read_source(ROWS)
    texts = [apply(ROWS, edit) for edit in mends(model, softmax(model), "reduction", "", {})]
    step = "    part += __shfl_xor_sync(~0u, part, 1);\n    den = "
    assert any(step in text for text in texts)


def test_a_tree_in_shared_memory_begins_with_half_of_what_it_adds():
    source = """__global__ void k(float* out) {
      __shared__ float s[256];
      for (int h = blockDim.x / 4; h > 0; h >>= 1) {
        if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
        __syncthreads();
      }
      out[0] = expf(s[0]);
    }"""
    model = read_source(source)
    texts = [apply(source, edit) for edit in mends(model, softmax(model), "reduction", "", {})]
    assert any("int h = 2 * (blockDim.x / 4);" in text for text in texts)


def test_rows_with_factors_of_their_own():
    source = REGISTERS.replace("l0 *= c0, l1 *= c1;", "l0 *= c0, l1 *= c1;\n    acc[0][2] *= c0, acc[0][3] *= c0;")
    model = read_source(source)
    texts = [apply(source, edit) for edit in mends(model, softmax(model), "row-statistic", "", {})]
    assert any("acc[0][2] *= c1, acc[0][3] *= c1;" in text for text in texts)


WARPS = """__global__ void k(const float* in, float* out, int n) {
  __shared__ float tops[8][16], dens[8][16], s[16][64];
  const int warp = threadIdx.x >> 5, warps = blockDim.x >> 6, r = threadIdx.x & 15;
  float m = -1e30f, den = 0.f;
  for (int j = 0; j < n; j += 64) {
    m = fmaxf(m, tops[warp][r]);
    for (int c = 0; c < 64; ++c) dens[warp][r] += __expf(s[r][c] - m);
    __syncthreads();
    for (int i = 0; i < 8; ++i) { if (i < 4) den += dens[i][r]; }
    mma_sync(a, b, c, a);
  }
  out[0] = s[0][0] / den;
}
"""


@pytest.mark.parametrize(
    "wanted",
    [
        "for (int i = 0; i < 8; ++i) { den += dens[i][r]; }",
        "warps = blockDim.x >> 5,",
        "for (int other = 0; other < 8; ++other) m = fmaxf(m, tops[other][r]);",
    ],
)
def test_partial_results_of_all_warps_are_combined(wanted):
    model = read_source(WARPS)
    texts = [apply(WARPS, edit) for edit in mends(model, softmax(model), "reduction", "", {})]
    assert any(wanted in text for text in texts)


@pytest.mark.parametrize(("loop", "step"), [("j += 64", 64), ("j += 2 * 48", 96), ("j += n", 0)])
def test_how_many_keys_the_loop_takes_at_a_time(loop, step):
    model = read_source(WARPS.replace("j += 64", loop))
    assert key_step(model, softmax(model)) == step


def test_the_width_of_tiles_that_are_counted():
    model = read_source(
        WARPS.replace("int j = 0; j < n; j += 64", "int j = 0; j < n; ++j").replace("m = f", "p += j * 32;\n    m = f")
    )
    assert key_step(model, softmax(model)) == 32


LOCAL = """__global__ void k(const float* in, float* out, int n, int hide) {
  __shared__ float s[64][32];
  const size_t off = (size_t)blockIdx.y * n * 64;
  const int q0 = (gridDim.x - 1 - blockIdx.x) * 64, lane = threadIdx.x % 32, own = blockIdx.x * 64 + lane / 4;
  float m = -1e30f, den = 0.f;
  for (int t = 0; t < n; t += 32) {
    const int k0 = t * 1;
    for (int e = 0; e < 4; ++e) {
      const int row = lane / 4 + e / 2 * 8, col = lane % 4 * 2 + e % 2;
      s[row][col] = (col >= n || (hide && col > row)) ? -INFINITY : s[row][col];
      m = fmaxf(m, s[row][col]);
      den += expf(s[row][col] - m);
    }
  }
  if (own < n && hide) out[off + own] = in[0] / den;
}
"""


@pytest.mark.parametrize(
    ("source", "fault", "wanted", "line"),
    [
        (LOCAL, "causal-local", "col + k0 > row + q0", 10),
        (LOCAL, "causal-local-row", "col > row + q0", 10),
        (
            LOCAL.replace("s[row][col]", "s[lane][e]"),
            "causal-local-row",
            "int row = lane / 4 + e / 2 * 8 + q0,",
            9,
        ),
        (LOCAL.replace("(hide && col > row)", "false"), "causal-missing", "(hide && col > own)", 10),
    ],
)
def test_masks_within_a_tile(source, fault, wanted, line):
    model = read_source(source)
    found = [edit for edit in mends(model, softmax(model), "causal-mask", fault, {}) if wanted in apply(source, edit)]
    assert found and found[0].line == line


def test_an_offset_into_a_tensor_is_no_first_row():
    model = read_source(LOCAL)
    texts = [apply(LOCAL, edit) for edit in mends(model, softmax(model), "causal-mask", "causal-local-row", {})]
    at = [next((n for n, text in enumerate(texts) if f"col > row + {base}" in text), 99) for base in ("q0", "off")]
    assert at[0] < at[1]
