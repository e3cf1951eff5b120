"""What the workers of pytest-xdist share out among themselves: GPUs, host threads."""

from __future__ import annotations

import os
import re
from pathlib import Path


def choose_gpu(worker: str) -> None:
    """Let this process see one GPU: worker gw0 the first, gw1 the second, and around again.

    Nothing happens where somebody chose already (WMMADIAG_GPU), or there are fewer than two.
    """
    number = re.search(r"\d+$", worker)
    visible = visible_gpus()
    if number is None or len(visible) < 2 or os.environ.get("WMMADIAG_GPU"):
        return
    os.environ["CUDA_VISIBLE_DEVICES"] = visible[int(number[0]) % len(visible)]


def visible_gpus(devices: Path = Path("/dev")) -> list[str]:
    """Names of the GPUs that CUDA would count, found without loading it (a context would outlive the choice)."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip()]
    nodes = (re.fullmatch(r"nvidia(\d+)", path.name) for path in devices.glob("nvidia*"))
    return [str(number) for number in sorted(int(node[1]) for node in nodes if node)]


def threads_per_worker() -> int:
    """Host threads for one emulated launch: all (0), or under pytest-xdist this worker's share."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") or 1)
    return 0 if workers <= 1 else max(1, (os.cpu_count() or 1) // workers)
