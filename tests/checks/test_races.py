"""The check `races`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import PRELUDE, found

from wmmadiag.checks.finding import Level


def line(source: str, mark: str) -> int:
    """The line of the comment `//mark` in PRELUDE + source."""
    return next(n for n, text in enumerate((PRELUDE + source).split("\n"), 1) if text.rstrip().endswith("//" + mark))


def races(source, *arguments, **how):
    how.setdefault("block", 64)
    how.setdefault("names", ("out", "x"))
    return found("races", source, *(arguments or (np.zeros(256, np.float32),)), **how)


def kernel(body: str, parameters: str = "float* out") -> str:
    head = "int t = threadIdx.x, warp = t / 32, lane = t % 32;\n(void)warp; (void)lane;"
    return f'extern "C" __global__ void k({parameters}) {{\n{head}\n{body}\n}}\n'


RIGHT_READ = kernel("""
    __shared__ float s[64];
    s[t] = t; //W
    out[t] = s[63 - t]; //R
""")
OTHER_WARP_FLAG = """
    __shared__ float s[64];
    __shared__ int ready;
    if (t == 0) ready = 0;
    __syncthreads();
    if (warp == 0) {{
        s[lane] = lane; //W
        __syncwarp();
        {fence}
        if (lane == 0) atomicExch(&ready, 1);
    }} else {{
        while (atomicAdd(&ready, 0) == 0) {{}}
        {fence}
        __syncwarp();
        out[lane] = s[lane]; //R
    }}
"""
WMMA = """
    __shared__ __align__(32) half a[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> g;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    wmma::fill_fragment(g, __float2half(1.0f));
    for (int i = t; i < 256; i += blockDim.x) a[i] = __float2half(float(i)); //W
    {between}
    wmma::load_matrix_sync(f, a, 16); //R
    wmma::mma_sync(c, f, g, c);
    wmma::store_matrix_sync(out + 256 * warp, c, 16, wmma::mem_row_major);
"""
TILES = """
    __shared__ __align__(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 1.0f);
    wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major); //W
    {between}
    for (int i = lane; i < 256; i += 32) out[i] = tile[i] * 2.0f; //R
"""
NAMED = """
    __shared__ float s[64];
    if (warp < 2) s[t] = t; //W
    if (warp < {members}) asm volatile("bar.sync 1, {threads};" ::: "memory");
    if (warp < 2) out[t] = s[63 - t]; //R
"""
DOUBLE_BUFFER = """
    __shared__ float s[2][64];
    float sum = 0;
    s[0][t] = x[t];
    for (int i = 0; i < 4; ++i) {{
        __syncthreads();
        if (i + 1 < 4) s[{buffer}][t] = x[(i + 1) * 64 + t]; //W
        sum += s[i & 1][63 - t]; //R
    }}
    out[t] = sum;
"""

FLAGGED = {
    "no barrier": (RIGHT_READ, "read-write", "R", "W", {}),
    "barrier in the wrong place": (
        kernel("__shared__ float s[64]; __syncthreads(); s[t] = t; //W\n out[t] = s[63 - t]; //R"),
        "read-write", "R", "W", {},
    ),
    "syncwarp where other warps read": (
        kernel("__shared__ float s[64]; s[t] = t; //W\n __syncwarp(); out[t] = s[63 - t]; //R"),
        "read-write", "R", "W", {},
    ),
    "no barrier at the end of a loop": (
        kernel("__shared__ float s[64]; float a = 0; for (int i = 0; i < 3; ++i) { s[t] = x[t] + i; //W\n"
               "__syncthreads(); a += s[63 - t]; //R\n } out[t] = a;", "float* out, const float* x"),
        "read-write", "R", "W", {"arguments": (np.zeros(64, np.float32), np.ones(64, np.float32))},
    ),
    "two warps write": (
        kernel("__shared__ float s[32]; s[lane] = t; //W\n __syncthreads(); out[t] = s[lane];"),
        "same-store", "W", "", {},
    ),
    "flag without a fence": (kernel(OTHER_WARP_FLAG.format(fence="")), "read-write", "R", "W", {}),
    "plain and atomic": (
        kernel("__shared__ int n; if (t == 0) n = 0; //W\n atomicAdd(&n, 1); //R\n __syncthreads(); out[t] = n;"),
        "atomic-write", "R", "W", {},
    ),
    "fragment load of other warps' elements": (
        kernel(WMMA.format(between="__syncwarp();")), "read-write", "R", "W",
        {"arguments": (np.zeros(512, np.float32),)},
    ),
    "barrier that only the other warps pass": (
        kernel("__shared__ float s[64]; if (warp < 2) s[t] = t; //W\n"
               'if (warp > 0) asm volatile("bar.sync 1, 64;" ::: "memory");\n if (warp < 2) out[t] = s[63 - t]; //R'),
        "read-write", "R", "W", {"block": 96},
    ),
    "the same buffer again": (
        kernel(DOUBLE_BUFFER.format(buffer="i & 1"), "float* out, const float* x"),
        "read-write", "R", "W", {"arguments": (np.zeros(64, np.float32), np.ones(256, np.float32))},
    ),
    "bytes next to each other in one word are told apart": (
        kernel("__shared__ unsigned char s[64]; s[t] = t; //W\n __syncthreads();"
               "unsigned char v = s[t ^ 33]; s[t ^ 1] = 1; //R\n"
               "__syncthreads(); out[t] = s[t] + v; "),
        "read-write", "R", "R", {},
    ),
    "global memory within a block": (
        kernel("out[t] = t; //W\n out[128 + t] = out[63 - t]; //R"), "read-write", "R", "W", {},
    ),
    "two blocks write one element": (
        kernel("if (t == 0) out[0] = blockIdx.x + 5; //W"), "blocks-same-store", "W", "", {"grid": 2},
    ),
    "one block reads what another wrote": (
        kernel("if (blockIdx.x == 0) out[t] = t; //W\n else out[64 + t] = out[t]; //R"),
        "blocks-read-write", "R", "W", {"grid": 2},
    ),
    "plain sums of blocks": (
        kernel("out[t] += 1.0f; //W"), "blocks-read-write", "W", "W", {"grid": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name, threads):
    source, kind, first, second, how = FLAGGED[name]
    how = dict(how)
    arguments = tuple(a.copy() for a in how.pop("arguments", (np.zeros(256, np.float32),)))
    seen = races(source, *arguments, threads=threads, **how)
    assert (kind, Level.ERROR, line(source, first), line(source, second) if second else 0) in {
        (f.kind, f.level, f.place.line, f.other.line if f.other else 0) for f in seen
    }, seen


BAR = 'asm volatile("bar.{} {}, {};" ::: "memory");'
THIRD_READER = """
    __shared__ float s[32];
    if (warp == 3) s[lane] = t;
    __syncthreads();
    if (warp < 3) out[t] = s[lane]; //R
    if (warp {who}) {{ asm volatile("bar.sync 1, {threads};" ::: "memory"); }}
    if (warp == 3) s[lane] = 1; //W
"""
PHASES = """
    __shared__ __align__(8) unsigned long long full;
    __shared__ float s[2][32];
    unsigned at = (unsigned)__cvta_generic_to_shared(&full);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(at));
    __syncthreads();
    if (warp == 0) {{
        for (int i = 0; i < 1; ++i) {{
            s[i][lane] = t; //W
            asm volatile("{{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }}" :: "r"(at) : "memory");
        }}
    }} else {{
        unsigned done = 0;
        {wait}
        out[lane] = s[{read}][31 - lane]; //R
    }}
"""
OWN_PHASE = """
    __shared__ __align__(8) unsigned long long full;
    __shared__ float s[64];
    unsigned at = (unsigned)__cvta_generic_to_shared(&full);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], {count};" :: "r"(at));
    __syncthreads();
    s[t] = t; //W
    if ({who}) asm volatile("{{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }}" :: "r"(at) : "memory");
    unsigned done = 0;
    {wait}
    out[t] = s[t ^ 1]; //R
"""
TWICE = OWN_PHASE.replace("    unsigned done = 0;", "    s[t] += 1; //W2\n    {again}\n    unsigned done = 0;")
ARRIVE = """asm volatile("{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }" :: "r"(at) : "memory");"""
WAIT = """while (!done) asm volatile("{{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0;"
              " selp.u32 %0, 1, 0, p; }}" : "=r"(done) : "r"(at) : "memory");"""
ONE_LOOK = """asm volatile("{{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 1;"
              " selp.u32 %0, 1, 0, p; }}" : "=r"(done) : "r"(at) : "memory");"""
HANDED_ON = """
    if (blockIdx.x == 0) {{
        out[64 + t] = t; //W
        {first}
        __syncthreads();
        if (t == 0) atomicExch((int*)out, 1);
        {late}
    }} else {{
        if (t == 0) while (atomicAdd((int*)out, 0) == 0) {{}}
        {second}
        out[128 + t] = out[64 + (t ^ 1)]; //R
    }}
"""
PARTLY = {
    "a third warp that reads": (
        kernel(THIRD_READER.format(who="!= 1", threads=96)), {"block": 128}, ("read-write", Level.ERROR, "R", "W"),
    ),
    "all who read have met the writer": (kernel(THIRD_READER.format(who=">= 0", threads=128)), {"block": 128}, None),
    "an arrival does not wait": (
        kernel("__shared__ float s[32]; if (warp == 0) { s[lane] = t; //W\n" + BAR.format("sync", 1, 64) + "}"
               "else { " + BAR.format("arrive", 1, 64) + " out[lane] = s[31 - lane]; //R\n}"),
        {}, ("read-write", Level.ERROR, "R", "W"),
    ),
    "what follows an arrival is not covered by it": (
        kernel("__shared__ float s[32]; if (warp == 0) { " + BAR.format("arrive", 1, 64) + " s[lane] = t; //W\n}"
               "else { " + BAR.format("sync", 1, 64) + " out[lane] = s[31 - lane]; //R\n}"),
        {}, ("read-write", Level.ERROR, "R", "W"),
    ),
    "a phase of an mbarrier": (kernel(PHASES.format(wait=WAIT, read=0)), {}, None),
    "an mbarrier orders the lanes of a warp, too": (
        kernel(OWN_PHASE.format(count=64, who="true", wait=WAIT.replace("{{", "{").replace("}}", "}"))), {}, None,
    ),
    "an mbarrier at which all lanes arrive twice in a phase": (
        kernel(TWICE.format(count=128, who="true", again=ARRIVE, wait=WAIT.replace("{{", "{").replace("}}", "}"))),
        {}, None,
    ),
    "an mbarrier at which some lanes arrive twice in a phase": (
        kernel(TWICE.format(
            count=80, who="true", again=f"if (lane < 8) {ARRIVE}", wait=WAIT.replace("{{", "{").replace("}}", "}")
        )),
        {}, ("lanes-read-write", Level.WARNING, "R", "W2"),
    ),
    "an mbarrier at which one lane arrives for all": (
        kernel(OWN_PHASE.format(count=2, who="lane == 0", wait=WAIT.replace("{{", "{").replace("}}", "}"))),
        {}, ("lanes-read-write", Level.WARNING, "R", "W"),
    ),
    "one look at an mbarrier whose phase is not over": (
        kernel(PHASES.format(wait=ONE_LOOK, read=0).replace("[%0], 32", "[%0], 96")
               .replace("parity.shared.b64 p, [%1], 1", "parity.shared.b64 p, [%1], 0")),
        {}, ("read-write", Level.ERROR, "R", "W"),
    ),
    "handed on to another block": (
        kernel(HANDED_ON.format(first="__threadfence();", late="", second="__threadfence(); __syncthreads();")),
        {"grid": 2}, None,
    ),
    "handed on, the fence of the reader being a barrier": (
        kernel(HANDED_ON.format(first="__threadfence();", late="", second="__syncthreads();")), {"grid": 2}, None,
    ),
    "handed on without the writer's fence": (
        kernel(HANDED_ON.format(first="", late="", second="__threadfence(); __syncthreads();")),
        {"grid": 2}, ("blocks-read-write", Level.ERROR, "R", "W"),
    ),
    "written after it was handed on": (
        kernel(HANDED_ON.format(first="__threadfence();", late="out[64 + t] = t + 1; //L", second="__syncthreads();")),
        {"grid": 2}, ("blocks-read-write", Level.ERROR, "R", "L"),
    ),
    "no fence where it is taken over": (
        kernel(HANDED_ON.format(first="__threadfence();", late="", second="").replace("if (t == 0) while", "while")),
        {"grid": 2}, ("blocks-no-acquire", Level.ERROR, "R", "W"),
    ),
    "no fence where a flag in shared memory is taken over": (
        kernel(OTHER_WARP_FLAG.replace("{fence}", "__threadfence_block();", 1)
               .replace("{fence}", "").replace("__syncwarp();\n        out", "out").format()),
        {}, ("no-acquire", Level.ERROR, "R", "W"),
    ),
    "a flag is passed, and the fence is elsewhere": (
        kernel(OTHER_WARP_FLAG.replace("{fence}", "", 1).format(fence="__threadfence_block();")),
        {}, ("read-write", Level.ERROR, "R", "W"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTLY)
def test_what_only_some_know(name):
    source, how, expected = PARTLY[name]
    seen = races(source, np.zeros(512, np.float32), **how)
    if expected is None:
        assert seen == ()
        return
    kind, level, first, second = expected
    assert (kind, level, line(source, first), line(source, second)) in {
        (f.kind, f.level, f.place.line, f.other.line if f.other else 0) for f in seen
    }, seen


def test_words_of_a_flag_without_a_fence():
    source = kernel(OTHER_WARP_FLAG.replace("{fence}", "", 1).format(fence="__threadfence_block();"))
    (seen,) = races(source)
    assert "flag" in seen.message and f"__threadfence_block() after line {line(source, 'W')}" in seen.hint


LANES_LOCK = """
    int* lock = (int*)out;
    for (bool done = false; !done;) {{
        if (atomicCAS(lock + t % 2, 0, 1) == 0) {{
            {fence}
            out[8 + t % 2] += t; //W
            {fence}
            {unlock};
            done = true;
        }}
    }}
"""
LANES_ARRIVE = """
    __shared__ int here;
    __shared__ float s[32];
    if (t == 0) here = 0;
    __syncwarp();
    s[t] = t; //W
    {fence}
    atomicAdd(&here, 1);
    while (atomicAdd(&here, 0) < 32) {{}}
    {fence}
    out[t] = s[31 - t]; //R
"""
LANES = {
    "a lock that lanes take": (LANES_LOCK, {"fence": "__threadfence();", "unlock": "atomicExch(lock + t % 2, 0)"}, ""),
    "a lock that a release opens": (
        LANES_LOCK,
        {
            "fence": "__threadfence();",
            "unlock": """asm volatile("st.release.gpu.b32 [%0], %1;" :: "l"(lock + t % 2), "r"(0) : "memory")""",
        },
        "",
    ),
    "a lock of the block's scope": (
        LANES_LOCK, {"fence": "__threadfence_block();", "unlock": "atomicExch(lock + t % 2, 0)"}, "",
    ),
    "a lock without fences": (
        LANES_LOCK, {"fence": "", "unlock": "atomicExch(lock + t % 2, 0)"}, "lanes-read-write lanes-write-write",
    ),
    "all lanes have arrived": (LANES_ARRIVE, {"fence": "__threadfence_block();"}, ""),
    "all have, without fences": (LANES_ARRIVE, {"fence": ""}, "lanes-read-write"),
}  # fmt: skip


@pytest.mark.parametrize("name", LANES)
def test_lanes_that_release_and_acquire(name):
    text, parts, expected = LANES[name]
    seen = races(kernel(text.format(**parts)), block=32)
    assert {f.kind for f in seen} == set(expected.split()), seen


LOOK_ALIKES = {
    "barrier": (RIGHT_READ.replace("//W", "\n__syncthreads();"), {}),
    "own element": (kernel("__shared__ float s[64]; s[t] = t; out[t] = s[t];"), {}),
    "syncwarp within a warp": (kernel("__shared__ float s[64]; s[t] = t; __syncwarp(); out[t] = s[t ^ 1];"), {}),
    "flag with fences": (kernel(OTHER_WARP_FLAG.format(fence="__threadfence_block();")), {}),
    "atomics alone": (
        kernel("__shared__ int n[4]; if (t < 4) n[t] = 0; __syncthreads(); atomicAdd(&n[t % 4], t);"
               "__syncthreads(); out[t] = n[t % 4];"), {},
    ),
    "fragment load after a barrier": (
        kernel(WMMA.format(between="__syncthreads();")), {"arguments": (np.zeros(512, np.float32),)},
    ),
    "named barrier of both warps": (kernel(NAMED.format(members=2, threads=64)), {"block": 96}),
    "producer and consumer barriers": (
        kernel("__shared__ float s[32]; for (int i = 0; i < 3; ++i) { if (warp == 0) {"
               'asm volatile("bar.sync 2, 64;" ::: "memory"); s[lane] = i;'
               'asm volatile("bar.arrive 1, 64;" ::: "memory"); }'
               'else { asm volatile("bar.arrive 2, 64;" ::: "memory"); asm volatile("bar.sync 1, 64;" ::: "memory");'
               "out[lane] = s[31 - lane]; } }"), {},
    ),
    "double buffer": (
        kernel(DOUBLE_BUFFER.format(buffer="(i + 1) & 1"), "float* out, const float* x"),
        {"arguments": (np.zeros(64, np.float32), np.ones(256, np.float32))},
    ),
    "half-words of other warps in one word": (
        kernel("__shared__ half s[64]; s[lane * 2 + warp] = __float2half(t);"
               "out[t] = __half2float(s[lane * 2 + warp]);"), {},
    ),
    "bytes of other warps in one word": (
        kernel("__shared__ unsigned char s[64]; s[lane * 2 + warp] = t; out[t] = s[lane * 2 + warp];"), {},
    ),
    "blocks write next to each other": (kernel("out[blockIdx.x + 4 * (t % 64)] = t;"), {"grid": 4}),
    "blocks sum atomically": (kernel("atomicAdd(&out[t], 1.0f);"), {"grid": 4}),
    "the last block adds up after fences": (
        kernel("""
    __shared__ bool last;
    out[64 + blockIdx.x * 64 + t] = t;
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd((int*)out, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) { float sum = 0; for (int i = 0; i < gridDim.x; ++i) sum += out[64 + i * 64 + t]; out[192 + t] = sum; }
"""), {"grid": 2, "block": 64},
    ),
    "all lanes write one value": (kernel("__shared__ int n; if (warp == 0) n = 3; __syncthreads(); out[t] = n;"), {}),
    "a reader that shuffles before one lane writes": (
        kernel("__shared__ float m; if (t == 0) m = 1; __syncthreads(); if (warp == 0) { float v = m;"
               "v += __shfl_xor_sync(0xffffffff, v, 1); if (lane == 0) m = v; } __syncthreads(); out[t] = m;"), {},
    ),
    "a fragment stored over itself": (
        kernel("""
    __shared__ __align__(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    for (int i = lane; i < 256; i += 32) tile[i] = i;
    __syncwarp();
    for (int k = 0; k < 2; ++k) {
        wmma::load_matrix_sync(c, tile, 16, wmma::mem_row_major);
        c.x[0] += 1;
        wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major);
    }
    __syncwarp();
    out[lane] = tile[lane];
"""), {"block": 32},
    ),
    "in place, each element by one thread": (kernel("out[t] = out[t] * 2.0f + 1.0f;"), {"grid": 1}),
    "in place over a grid": (kernel("int i = blockIdx.x * 64 + t; out[i] = out[i] * 2.0f + 1.0f;"), {"grid": 4}),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_not_flagged(name, threads):
    source, how = LOOK_ALIKES[name]
    how = dict(how)
    arguments = tuple(a.copy() for a in how.pop("arguments", (np.zeros(256, np.float32),)))
    assert races(source, *arguments, threads=threads, **how) == ()


def test_lanes_of_one_warp_are_a_warning():
    source = kernel(TILES.format(between=""))
    (seen,) = races(source, block=32)
    assert (seen.kind, seen.level) == ("lanes-read-write", Level.WARNING)
    assert (seen.place.line, seen.other.line) == (line(source, "R"), line(source, "W"))
    assert "__syncwarp" in seen.hint
    assert races(kernel(TILES.format(between="__syncwarp();")), block=32) == ()


def test_partial_syncwarp_orders_its_lanes_only():
    body = "__shared__ float s[32]; if (lane < 16) {{ s[lane] = lane; __syncwarp(0xffff); out[t] = s[{other}]; }}"
    assert races(kernel(body.format(other="15 - lane")), block=32) == ()
    across = "__shared__ float s[32]; s[lane] = lane; if (lane < 16) { __syncwarp(0xffff); out[t] = s[31 - lane]; }"
    assert [f.kind for f in races(kernel(across), block=32)] == ["lanes-read-write"]


def test_writing_the_same_value_is_a_warning():
    source = kernel("__shared__ int n; n = (int)out[0] + blockDim.x; //W\n __syncthreads(); out[t] = n;")
    (seen,) = races(source)
    assert (seen.kind, seen.level) == ("write-same", Level.WARNING)


def test_one_instruction():
    (seen,) = races(kernel("__shared__ int n; if (warp == 0) n = lane; //W\n __syncthreads(); out[t] = n;"))
    assert (seen.kind, seen.level) == ("one-instruction", Level.WARNING)
    (seen,) = races(kernel("if (warp == 0) out[lane / 2] = lane; //W"))
    assert (seen.kind, seen.level) == ("one-instruction", Level.ERROR)
    assert "out" in seen.message


def test_names_the_array_and_the_element():
    (seen,) = races(RIGHT_READ)
    assert " s," in seen.message and "s[" in seen.detail[0] and "__syncthreads" in seen.hint
    assert seen.count == 2  # both warps read before the other is known to have written


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_same_pair_whichever_ran_first(order):
    from dataclasses import replace

    from run_checks import run_checks

    import wmmadiag
    from wmmadiag import emulator
    from wmmadiag.checks import native_names, select
    from wmmadiag.emulator import EmulatorOptions
    from wmmadiag.launch import Launch

    source = kernel("__shared__ float s[32]; if (warp == 0) s[lane] = t; //W\n if (warp == 1) out[lane] = s[lane]; //R")
    checks = select("races")
    ptx = wmmadiag.compile_cuda(PRELUDE + source, arch="sm_80").ptx
    options = replace(EmulatorOptions(threads=1, warp_order=order), checks=native_names(checks))
    launch = Launch((1, 1, 1), (64, 1, 1), [np.zeros(64, np.float32)], 0, ("out",))
    (seen,) = run_checks(emulator.load(ptx, options=options), launch, checks)
    assert (seen.kind, seen.place.line, seen.other.line) == ("read-write", line(source, "R"), line(source, "W"))


SAME_TILE = """
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> g;
    wmma::fragment<wmma::accumulator, 16, 16, 16, {element}> c;
    wmma::fill_fragment(c, ({element})0.0f);
    wmma::load_matrix_sync(f, x, 16);
    wmma::load_matrix_sync(g, x + 256, 16);
    wmma::mma_sync(c, f, g, c);
    {change}
    wmma::store_matrix_sync(({element}*)out, c, 24, wmma::mem_{layout}_major); //W
"""


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("element", ["float", "half"])
@pytest.mark.parametrize("grid", [1, 2])
def test_fragments_stored_twice(layout, element, grid):
    x = np.random.default_rng(0).standard_normal(512).astype(np.float16)
    block, whose = (64, "warp") if grid == 1 else (32, "block")

    def seen(change):
        body = SAME_TILE.format(element=element, layout=layout, change=change)
        source = kernel(body, "float* out, const half* x")
        return races(source, np.zeros(512, np.float32), x, block=block, grid=grid), source

    (same,), source = seen("")
    assert same.level is Level.WARNING
    assert same.kind == ("write-same" if grid == 1 else "blocks-write-same")
    assert f"{whose}s store the same values" in same.message
    assert (same.place.line, same.other) == (line(source, "W"), None)
    who = "warp" if grid == 1 else "blockIdx.x"
    others, _ = seen(f"if ({who}) for (int i = 0; i < c.num_elements; ++i) c.x[i] = c.x[i] + ({element})1.0f;")
    assert [one.kind for one in others if one.level is Level.ERROR] == [
        "same-store" if grid == 1 else "blocks-same-store"
    ]


def test_the_lines_are_those_of_the_statements_in_inlined_functions():
    source = (
        "struct Tile { float* s; __device__ float& operator[](int i) const { return s[i]; } };\n"
        "__device__ __forceinline__ void fill(const Tile& tile, float v) {\n    tile[threadIdx.x] = v; //W\n}\n"
        "template <class F> __device__ __forceinline__ void each(F f) { f(threadIdx.x); }\n"
    ) + kernel(
        "__shared__ float s[64]; Tile tile{s};\n fill(tile, t);\n"
        "each([&](int i) {\n    out[i] = tile[63 - i]; //R\n });"
    )
    (seen,) = races(source)
    assert (seen.place.line, seen.other.line) == (line(source, "R"), line(source, "W"))


def test_one_line_says_which_pass_and_which_lanes():
    source = kernel(
        "__shared__ float s[64]; s[t] = t; __syncthreads();\n"
        '_Pragma("unroll 1") for (int i = 1; i < 4; ++i) { s[t] += s[(t + 32 + i) % 64]; //R\n __syncthreads(); }'
        "out[t] = s[t];"
    )
    (seen,) = (one for one in races(source) if one.kind == "read-write")
    assert seen.place == seen.other and seen.level is Level.ERROR
    assert "lane 1 (pass 1)" in seen.detail[0] and "by unrolling, pass 1" in seen.detail[0]


def test_an_error_says_what_the_other_order_changes():
    (seen,) = races(RIGHT_READ)
    assert any("the other way round" in words and "out[" in words for words in seen.detail)


def test_what_changes_no_result_is_a_warning():
    source = kernel("__shared__ float s[64]; s[t] = t; //W\n float v = s[63 - t]; //R\n if (v == -1.0f) out[t] = v;")
    out = np.zeros(256, np.float32)
    (seen,) = races(source, out)
    assert (seen.kind, seen.level) == ("read-write", Level.WARNING)
    assert "changes no result" in seen.detail[-1] and not out.any()


@pytest.mark.parametrize(
    ("body", "how", "whose"),
    [
        ("if (t == 0) out[0] += 1; //W", {"block": 32, "grid": 2}, "block"),
        ("__shared__ int n; n = 0; __syncwarp(); int p = n++; out[t] = p; //W", {"block": 32}, "lane"),
    ],
    ids=["blocks", "lanes"],
)
def test_line_that_changes_what_it_reads_wants_an_atomic(body, how, whose):
    seen = [one for one in races(kernel(body), **how) if one.kind.endswith("read-write")]
    assert seen and all("atomicAdd" in one.hint and f"each {whose} its own" in one.hint for one in seen), seen
    assert not any("result is right" in one.hint for one in races(kernel(body), **how))
