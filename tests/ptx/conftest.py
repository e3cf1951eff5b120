"""Real PTX for the tests: NVRTC, called directly."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from cuda import pathfinder
from cuda.bindings import nvrtc as api

KERNELS = Path(__file__).parent / "kernels"


@cache
def compile_ptx(path: str, arch: str, options: tuple[str, ...]) -> str:
    """The PTX of one source file."""
    found = (pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    includes = [f"-I{folder}" for folder in found if folder]
    flags = [f"--gpu-architecture=compute_{arch}", "-std=c++17", *includes, *options]
    _, program = api.nvrtcCreateProgram(Path(path).read_bytes(), path.encode(), 0, [], [])
    (status,) = api.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    if status:
        _, size = api.nvrtcGetProgramLogSize(program)
        log = b" " * size
        api.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    _, size = api.nvrtcGetPTXSize(program)
    ptx = b" " * size
    api.nvrtcGetPTX(program, ptx)
    api.nvrtcDestroyProgram(program)
    return ptx.rstrip(b"\0").decode()


@pytest.fixture(scope="session")
def kernel_ptx() -> Callable[..., str]:
    """`kernel_ptx("nested", "90", "-lineinfo")` compiles tests/ptx/kernels/nested.cu."""
    return lambda name, arch, *options: compile_ptx(str(KERNELS / f"{name}.cu"), arch, options)
