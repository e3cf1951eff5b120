"""One test body, two backends: lane operations, warp operations and random programs, against what a GPU answered."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from wmmadiag.emulator import EmulatorOptions, load
from wmmadiag.errors import UndecidedError
from wmmadiag.fidelity.cases import Array, FidelityCase
from wmmadiag.gpu import GpuOptions, devices
from wmmadiag.gpu import load as load_gpu
from wmmadiag.gpu.devices import available
from wmmadiag.launch import LoadedKernel

VECTORS = Path(__file__).parents[1] / "vectors"
sys.path.insert(0, str(VECTORS))

from families import FAMILIES, recorded_cases  # noqa: E402  (needs the path)
from kept import differences  # noqa: E402

PARTS = 8
RECORDS = [
    (family, path.stem.removeprefix(f"{family}_"))
    for family in FAMILIES
    for path in sorted(VECTORS.glob(f"{family}_sm_*.npz"))
]
NO_GPU = available()
BACKENDS = [
    "emulator",
    pytest.param("gpu", marks=[pytest.mark.gpu, pytest.mark.skipif(bool(NO_GPU), reason=f"no GPU: {NO_GPU}")]),
]


@cache
def _record(family: str, arch: str) -> Mapping[str, Array]:
    with np.load(VECTORS / f"{family}_{arch}.npz") as file:
        return {name: file[name] for name in file.files}


@cache
def _cases(family: str, arch: str) -> list[FidelityCase]:
    return recorded_cases(family, arch)


def _kernel(case: FidelityCase, arch: str, backend: str, family: str) -> LoadedKernel:
    if backend == "gpu":
        return load_gpu(case.ptx, "k", arch=arch, options=GpuOptions(assembly=FAMILIES[family].assembly))
    return load(case.ptx, "k", arch=arch, options=EmulatorOptions(threads=1))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("family", "arch"), RECORDS)
@pytest.mark.corpus
def test_same_bits_as_recorded(family: str, arch: str, part: int, backend: str) -> None:
    if backend == "gpu" and devices()[0].arch != arch:
        pytest.skip(f"the GPU is no {arch}")
    record = _record(family, arch)
    compared = 0
    wrong = []
    for case in _cases(family, arch)[part::PARTS]:
        if not any(name.startswith(f"{case.key}/") for name in record):
            continue  # the recorder's assembler could not make it
        try:
            outputs = case.run(_kernel(case, arch, backend, family))
        except UndecidedError as error:
            if backend == "gpu":
                continue
            wrong.append(f"{case.key}: {error.message}")
            continue
        wrong += differences(case, outputs, record)
        compared += 1
    assert compared > 0
    assert wrong == []


def test_there_are_records() -> None:
    assert {family for family, _ in RECORDS} == set(FAMILIES)
