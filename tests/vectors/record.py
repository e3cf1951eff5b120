"""Records everything that tests replay of a GPU, with one command on a machine that has one:

    python tests/vectors/record.py                       # all, into this folder
    python tests/vectors/record.py --only warps programs --folder elsewhere --full

Needs the package's own dependencies. `--full` keeps every output besides the sample and digest of each row, to look at
what differs; such files are not committed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from families import FAMILIES, recorded_cases
from kept import record

from wmmadiag.errors import UndecidedError
from wmmadiag.fidelity.cases import Array, FidelityCase
from wmmadiag.gpu import Assembly, GpuKernel, GpuOptions, device
from wmmadiag.gpu.workers import Worker

HERE = Path(__file__).parent


def _sums(folder: Path, arch: str) -> list[str]:
    return [str(HERE / "record_gpu.py"), str(folder / f"{arch}.npz")]


def _alignment(folder: Path, arch: str) -> list[str]:
    return [str(HERE / "record_alignment.py"), str(folder / f"wmma_alignment_{arch}.json")]


def _lane_ops(folder: Path, arch: str) -> list[str]:
    return [str(HERE / "record_lane_ops.py"), str(folder / f"lane_ops_{arch}.npz")]


def _approximations(folder: Path, arch: str) -> list[str]:
    return [str(HERE / "record_approximations.py"), str(folder / f"approximation_digests_{arch}.npz")]


def _probes(folder: Path, arch: str) -> list[str]:
    return [str(HERE / "record_probes.py"), str(folder / f"probes_{arch}.json")]


PROGRAMS: dict[str, Callable[[Path, str], list[str]]] = {
    "sums": _sums,
    "alignment": _alignment,
    "lane_ops": _lane_ops,
    "approximation_digests": _approximations,
    "probes": _probes,
}
"""Recorders that are programs of their own: name → command line after the interpreter."""


def assembled(cases: Sequence[FidelityCase], arch: str, how: Assembly) -> list[bytes | None]:
    """Machine code of each case, in parallel; None where the assembler crashes."""
    local = threading.local()

    def one(case: FidelityCase) -> bytes | None:
        if not hasattr(local, "worker"):
            local.worker = Worker(0)
        try:
            code: bytes = local.worker.assemble(case.ptx, arch, case.key, how)
        except UndecidedError as error:
            print(f"left out: {error.message}", file=sys.stderr)
            return None
        return code

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(one, cases))


def record_family(name: str, folder: Path, full: bool) -> str:
    """Run all cases of a family on the GPU; returns a line about them."""
    gpu = device()
    cases = recorded_cases(name, gpu.arch)
    codes = assembled(cases, gpu.arch, FAMILIES[name].assembly)
    kept: dict[str, Array] = {}
    everything: dict[str, Array] = {}
    rows = 0
    for case, code in zip(cases, codes, strict=True):
        if code is None:
            continue
        outputs = case.run(GpuKernel(case.ptx, "k", gpu, GpuOptions(), code))
        kept.update(record(case, outputs))
        everything.update({f"{case.key}/{output}": array for output, array in outputs.items()})
        rows += len(case.rows)
    stamp = f"{gpu.name}, CUDA {gpu.driver}, {datetime.date.today().isoformat()}"
    np.savez_compressed(folder / f"{name}_{gpu.arch}.npz", allow_pickle=False, recorded=np.array(stamp), **kept)
    if full:
        np.savez_compressed(folder / f"full_{name}_{gpu.arch}.npz", allow_pickle=False, **everything)
    return f"{name}: {len(cases)} kernels, {rows} rows, {sum(a.size for a in everything.values()):,} outputs"


def main() -> int:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=HERE)
    parser.add_argument("--only", nargs="+", choices=[*PROGRAMS, *FAMILIES], default=[*PROGRAMS, *FAMILIES])
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    worst = 0
    for name in options.only:
        if name in FAMILIES:
            print(record_family(name, options.folder, options.full), flush=True)
        else:
            command = [sys.executable, *PROGRAMS[name](options.folder, device().arch)]
            worst = max(worst, subprocess.run(command, check=False).returncode)
            print(f"{name}: exit {worst}", flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
