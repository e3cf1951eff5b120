"""Records how this machine's GPU treats misaligned fragments; needs a GPU and an idle minute.

    python tests/vectors/record_alignment.py tests/vectors/wmma_alignment_sm_90.json

A misaligned access ends the process's use of the GPU, so every job runs in processes of its own.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from alignment_kernels import BUFFER_BYTES, Job, answer, attempts, buffer, jobs, ptx
from cuda.bindings import driver


def ok(result: tuple[Any, ...]) -> Any:
    """The values of a driver call that succeeded."""
    if result[0].value:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) == 2 else result[1:]


def run(job: Job, what: str) -> dict[str, str]:
    """The answers to one job's attempts whose names begin with `what`, up to the first that dies."""
    ok(driver.cuInit(0))
    ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(ok(driver.cuDeviceGet(0))))))
    function = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(ptx(job).encode() + b"\0")), b"k"))
    source, output = ok(driver.cuMemAlloc(BUFFER_BYTES)), ok(driver.cuMemAlloc(BUFFER_BYTES))
    answers: dict[str, str] = {}
    for name, off, ldm in attempts(job):
        if not name.startswith(what):
            continue
        ok(driver.cuMemcpyHtoD(source, buffer(), BUFFER_BYTES))
        ok(driver.cuMemsetD8(output, 0, BUFFER_BYTES))
        arguments = (int(source), int(output), off, ldm)
        types = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)
        ok(driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, (arguments, types), 0))
        (status,) = driver.cuCtxSynchronize()
        if status.value:
            answers[name] = "misaligned" if "MISALIGNED" in str(status) else str(status)
            break
        seen = np.empty(BUFFER_BYTES, np.uint8)
        ok(driver.cuMemcpyDtoH(seen, output, BUFFER_BYTES))
        answers[name] = answer(seen)
    return answers


def main() -> None:
    """Record all jobs, or run one in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    every = list(jobs())
    if options.job:
        print(json.dumps(run(every[int(options.job[0])], options.job[1])))
        return

    def one(index: int, what: str) -> tuple[str, dict[str, str]]:
        command = [sys.executable, __file__, str(options.file), "--job", str(index), what]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"{every[index].key}: {done.stderr[-500:]}")
        return every[index].key, json.loads(done.stdout.splitlines()[-1])

    answers: dict[str, dict[str, str]] = {}
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 2)) as pool:
        for key, part in pool.map(
            lambda pair: one(*pair), [(i, what) for i in range(len(every)) for what in ("off", "ldm")]
        ):
            answers.setdefault(key, {}).update(part)
    ok(driver.cuInit(0))
    name = ok(driver.cuDeviceGetName(64, ok(driver.cuDeviceGet(0)))).split(b"\0")[0].decode()
    version = ok(driver.cuDriverGetVersion())
    text = {"device": f"{name}, driver API {version}", "date": datetime.date.today().isoformat(), "answers": answers}
    options.file.write_text(json.dumps(text, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
