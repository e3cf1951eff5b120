"""Who knows of whose accesses: barriers that some reach, mbarriers, flags, fences between warps, blocks and lanes."""

from __future__ import annotations

import numpy as np
import pytest
from race_kernels import OTHER_WARP_FLAG, kernel, line, races

from wmmadiag.checks.finding import Level

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
LIFE = """
    __shared__ __align__(8) unsigned long long full;
    __shared__ float s[64];
    unsigned at = (unsigned)__cvta_generic_to_shared(&full), done = 0;
    {init}
    s[t] = t;
    {again}
    asm volatile("{{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }}" :: "r"(at) : "memory"); //R
    {wait}
    out[t] = s[t ^ 33];
"""
INIT = """asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at) : "memory"); //W
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


def life(init: str, again: str = "", threads: int = 64) -> str:
    text = LIFE.format(init=init, again=again, wait=WAIT.replace("{{", "{").replace("}}", "}"))
    return kernel(text.replace("], 64", f"], {threads}").replace("t ^ 33", f"t ^ {threads // 2}"))


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
    "an mbarrier is used by a warp that does not know that it was made": (
        life("if (t == 0) " + INIT), {}, ("mbarrier-made", Level.ERROR, "R", "W"),
    ),
    "an mbarrier is made behind a barrier": (life("if (t == 0) " + INIT + "__syncthreads();"), {}, None),
    "an mbarrier is made, and a flag says so": (
        life("__shared__ int made; if (t == 32) made = 0; __syncthreads(); if (t == 0) { " + INIT
             + "__threadfence_block(); atomicExch(&made, 1); } if (t > 0) while (atomicAdd(&made, 0) == 0) {}"
             " __threadfence_block(); __syncwarp();"),
        {}, None,
    ),
    "an mbarrier is made behind a named barrier": (
        life("if (t == 0) " + INIT + BAR.format("sync", 1, 64)), {}, None,
    ),
    "an mbarrier is made anew behind a barrier": (
        life("if (t == 0) " + INIT + "__syncthreads();", 'if (t == 40) { asm volatile("mbarrier.inval.shared.b64 [%0];"'
             ' :: "r"(at) : "memory"); ' + INIT + "} __syncthreads();"), {}, None,
    ),
    "lanes of a warp use an mbarrier that one of them made": (
        life("if (t == 0) " + INIT, threads=32), {"block": 32}, ("lanes-mbarrier-made", Level.WARNING, "R", "W"),
    ),
    "lanes of a warp use an mbarrier behind __syncwarp": (
        life("if (t == 0) " + INIT + "__syncwarp();", threads=32), {"block": 32}, None,
    ),
    "all threads make one mbarrier": (
        life(INIT + "__syncthreads();"), {}, ("mbarrier-made-twice", Level.WARNING, "W", "W"),
    ),
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
