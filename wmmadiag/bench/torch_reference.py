"""torch's scaled_dot_product_attention on a case's own inputs: its result and its time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import ConfigurationError

_TORCH_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "tf32": "float32"}
_WARM_UP = 10


@dataclass(frozen=True, slots=True)
class TorchAttention:
    """What torch did."""

    output: NDArray[np.float64]  # [B, H, S, D], float64
    seconds: float  # median on the GPU
    version: str  # of torch


def torch_attention(
    inputs: Mapping[str, NDArray[Any]], element: str, *, scale: float, causal: bool, repeats: int = 50
) -> TorchAttention:
    """Run and time SDPA on q, k, v [B, H, S, D].

    Raises:
        ConfigurationError: torch is not installed or sees no GPU, or the operation has no counterpart there.
    """
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise ConfigurationError("torch is not installed", hint="pip install torch, or leave --reference out") from None
    if not torch.cuda.is_available():
        raise ConfigurationError("this torch sees no GPU", hint="install a CUDA build of torch")
    dtype = getattr(torch, _TORCH_TYPES.get(element, "float32"))
    place = torch.device("cuda", 0)
    q, k, v = (torch.from_numpy(np.asarray(inputs[role], np.float64)).to(place, dtype) for role in "qkv")
    if causal and q.shape[-2] != k.shape[-2]:
        raise ConfigurationError(
            "torch's causal mask has another corner where queries and keys differ in number",
            hint="leave --reference out for this case, or take one with as many keys as queries",
        )
    call = torch.nn.functional.scaled_dot_product_attention
    grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}

    def run() -> Any:
        return call(q, k, v, is_causal=causal, scale=scale, **grouped)

    with torch.cuda.device(place), torch.no_grad():
        for _ in range(_WARM_UP):
            output = run()
        times = []
        for _ in range(repeats):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop) * 1e-3)
        result = output.double().cpu().numpy()
    assert math.isfinite(times[0])
    return TorchAttention(result, statistics.median(times), str(torch.__version__))
