"""The check `async`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import found

from wmmadiag.checks.finding import Level

SOURCE = """
#include <cuda_pipeline.h>
extern "C" __global__ void k(float* out, const float* x) {{
    __shared__ __align__(16) float s[4][256];
    int t = threadIdx.x;
    auto copy = [&](int stage, int i) {{ __pipeline_memcpy_async(&s[stage][4 * t], &x[256 * i + 4 * t], 16); }};
    float sum = 0;
{body}
    out[t] = sum;
}}
"""
BARRIER = "__syncthreads();"
COMMIT = "__pipeline_commit();"
WAIT = "__pipeline_wait_prior(0);"
READ = "sum += s[0][255 - t];"
PIPELINE = """
    for (int i = 0; i < 2; ++i) {{ copy(i, i); __pipeline_commit(); }}
    for (int i = 0; i < 4; ++i) {{
        __pipeline_wait_prior({left});
        __syncthreads();
        sum += s[i % {stages}][255 - t] + s[i % {stages}][t];
        {end}
        if (i + 2 < 4) copy((i + 2) % {stages}, i + 2);
        {commit}
    }}
    __pipeline_wait_prior(0);
"""


def pipeline(left=1, stages=3, end="", commit="__pipeline_commit();"):
    return PIPELINE.format(left=left, stages=stages, end=end, commit=commit)


FLAGGED = {
    "no wait": f"copy(0, 0); __pipeline_commit(); {BARRIER} {READ}",
    "a barrier is no wait, even for its own thread": f"copy(0, 0); __pipeline_commit(); {BARRIER} sum += s[0][4 * t];",
    "commit after the wait": f"copy(0, 0); __pipeline_wait_prior(0); __pipeline_commit(); {BARRIER} {READ}",
    "wait leaves the group in flight": f"copy(0, 0); __pipeline_commit(); __pipeline_wait_prior(1); {BARRIER} {READ}",
    "pipeline waits for too few": pipeline(left=2),
    "pipeline without commits at its end": pipeline(commit="if (i + 2 < 4) __pipeline_commit();", stages=3),
    "memory used again under a copy": f"copy(0, 0); {COMMIT} s[0][4 * t] = 1; {WAIT} {BARRIER} {READ}",
    "two copies to one place": f"copy(0, 0); copy(0, 1); {COMMIT} {WAIT} {BARRIER} {READ}",
}
LOOK_ALIKES = {
    "wait and barrier": f"copy(0, 0); __pipeline_commit(); __pipeline_wait_prior(0); {BARRIER} {READ}",
    "own data after the wait": "copy(0, 0); __pipeline_commit(); __pipeline_wait_prior(0); sum += s[0][4 * t];",
    "three stages": pipeline(),
    "another stage under a copy": f"copy(0, 0); {COMMIT} s[1][4 * t] = 1; sum += s[1][4 * t]; {WAIT} {BARRIER} {READ}",
    "wait_all needs no commit": f'copy(0, 0); asm volatile("cp.async.wait_all;" ::: "memory"); {BARRIER} {READ}',
    "a copy that nobody reads": "copy(0, 0); __pipeline_commit();",
}


def run(body, check="async"):
    return found(
        check,
        SOURCE.format(body=body),
        np.zeros(64, np.float32),
        np.arange(2048, dtype=np.float32),
        block=64,
        names=("out", "x"),
    )


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name):
    seen = run(FLAGGED[name])
    assert seen and all(f.level is Level.ERROR and f.check == "async" for f in seen)


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_not_flagged(name):
    assert run(LOOK_ALIKES[name], "async,races") == ()


def test_says_why():
    assert "nothing has waited" in run(FLAGGED["no wait"])[0].message
    assert "was not closed" in run(FLAGGED["commit after the wait"])[0].message
    assert "lets 1 group stay in flight" in run(FLAGGED["wait leaves the group in flight"])[0].message


def test_no_barrier_after_the_wait_is_a_race():
    seen = run(f"copy(0, 0); __pipeline_commit(); __pipeline_wait_prior(0); {READ}", "async,races")
    assert {f.check for f in seen if f.level is Level.ERROR} == {"races"}


def test_refilling_a_stage_that_others_still_read_is_a_race():
    assert any(f.check == "races" and f.level is Level.ERROR for f in run(pipeline(stages=2), "races"))


def test_says_which_wait_would_have_covered_it(tmp_path):
    seen = [f for f in run(pipeline(left=2)) if f.kind == "in-flight-read"]
    assert seen and all("wait_group 1" in f.hint and "2 groups" in f.message for f in seen), seen
    (one, *_) = run(FLAGGED["wait leaves the group in flight"])
    assert "wait_group 0" in one.hint
