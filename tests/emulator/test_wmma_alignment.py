"""Misaligned fragments and odd leading dimensions: the emulator does what the recorded chip did."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from wmmadiag.emulator import EmulatorOptions, load
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Launch

VECTORS = Path(__file__).parent.parent / "vectors"
sys.path.insert(0, str(VECTORS))

from alignment_kernels import BUFFER_BYTES, Job, answer, attempts, buffer, jobs, ptx  # noqa: E402  (needs the path)

RECORDED = json.loads((VECTORS / "wmma_alignment_sm_90.json").read_text())["answers"]


def test_all_jobs_are_recorded() -> None:
    assert {job.key for job in jobs()} == set(RECORDED)


@pytest.mark.parametrize("job", list(jobs()), ids=lambda job: job.key.replace(" ", "-"))
def test_emulator_answers_like_the_chip(job: Job) -> None:
    kernel = load(ptx(job), "k", arch="sm_90", options=EmulatorOptions(threads=1))
    compared = 0
    for name, off, ldm in attempts(job):
        if name not in RECORDED[job.key]:
            continue
        output = np.zeros(BUFFER_BYTES, np.uint8)
        try:
            kernel.launch(Launch((1, 1, 1), (32, 1, 1), [buffer(), output, off, ldm]))
            seen = answer(output)
        except KernelFault as fault:
            seen = fault.kind
        assert seen == RECORDED[job.key][name], name
        compared += 1
    assert compared >= 2
