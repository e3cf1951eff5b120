"""What CUDA's own names mean to an operator: the places of their arguments, what they give, and their siblings.

Sources: CUDA C++ Programming Guide (warp matrix functions, shuffles, synchronisation, asynchronous copies, pipelines,
built-in variables), the CUDA Math API, and the PTX ISA for what stands in inline assembly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from wmmadiag.csource.types import BOOL, FLOAT, HALF, INTEGER, VOID, Type

Order = Literal["barrier", "warp barrier", "fence", "commit", "wait", "arrive"]
"""What a call does to the order of accesses."""

ORDER: Mapping[str, Order] = {
    "__syncthreads": "barrier", "__syncthreads_and": "barrier", "__syncthreads_or": "barrier", "sync": "barrier",
    "__syncthreads_count": "barrier", "__barrier_sync": "barrier", "arrive_and_wait": "barrier",
    "__syncwarp": "warp barrier", "__threadfence": "fence", "__threadfence_block": "fence",
    "__threadfence_system": "fence", "__pipeline_commit": "commit", "producer_commit": "commit",
    "__pipeline_wait_prior": "wait", "consumer_wait": "wait", "producer_acquire": "wait", "wait": "wait",
    "arrive": "arrive", "consumer_release": "arrive",
}  # fmt: skip
ORDER_IN_ASSEMBLY: tuple[tuple[re.Pattern[str], Order], ...] = (
    (re.compile(r"\bcp\.async\.(?:bulk\.)?commit_group"), "commit"),
    (re.compile(r"\bcp\.async\.(?:bulk\.)?wait_(?:group|all)"), "wait"),
    (re.compile(r"\bmbarrier\.(?:test|try)_wait"), "wait"),
    (re.compile(r"\b(?:mbarrier|bar(?:rier)?(?:\.cta)?)\.arrive"), "arrive"),
    (re.compile(r"\bbar\.warp\.sync"), "warp barrier"),
    (re.compile(r"\bbar(?:rier)?\.(?:cta\.)?sync"), "barrier"),
    (re.compile(r"\b(?:fence|membar)\."), "fence"),
)
# What begins an asynchronous copy, and what waits for all copies of a thread where the program has nothing that does.
COPY_IN_ASSEMBLY, COPIES = re.compile(r"\bcp\.async\.c[ag]\b"), frozenset({"__pipeline_memcpy_async"})
WAIT_FOR_ALL = 'asm volatile("cp.async.wait_all;" ::: "memory");'
COMMIT_AND_WAIT = "__pipeline_commit(); __pipeline_wait_prior(0);"

FILL, LOAD, STORE, MULTIPLY = "fill_fragment", "load_matrix_sync", "store_matrix_sync", "mma_sync"
MATRIX_CALLS = frozenset({FILL, LOAD, STORE, MULTIPLY})
"""The warp matrix functions (CUDA C++ Programming Guide, "Warp Matrix Functions")."""

# The role of each argument, in order; "" for none of its own.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    LOAD: ("fragment", "pointer", "leading dimension", "layout"),
    STORE: ("pointer", "fragment", "leading dimension", "layout"),
    MULTIPLY: ("fragment", "fragment", "fragment", "fragment"),
    FILL: ("fragment", "initial value"),
    "__shfl_sync": ("mask", "", "shuffle", "shuffle"), "__shfl_up_sync": ("mask", "", "shuffle", "shuffle"),
    "__shfl_down_sync": ("mask", "", "shuffle", "shuffle"), "__shfl_xor_sync": ("mask", "", "shuffle", "shuffle"),
    "__syncwarp": ("mask",), "__pipeline_memcpy_async": ("pointer", "pointer", "copied bytes", "copied bytes"),
    "__pipeline_wait_prior": ("count",), "atomicAdd": ("pointer", ""),
}  # fmt: skip

# Functions of which each does another thing to the same arguments.
FAMILIES: tuple[frozenset[str], ...] = tuple(
    frozenset(one.split())
    for one in (
        "fmaxf fminf", "fmax fmin", "max min", "__hmax __hmin", "umax umin",
        "expf exp2f __expf", "exp exp2", "logf log2f __logf __log2f", "log log2", "hexp hexp2",
        "sqrtf rsqrtf", "sqrt rsqrt", "ceilf floorf rintf truncf", "sinf cosf", "__sinf __cosf", "sin cos",
        "__shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync", "__any_sync __all_sync",
        "atomicAdd atomicMax atomicMin atomicExch", "__low2half __high2half", "__low2float __high2float",
        "__hadd __hsub __hmul", "__fadd_rn __fsub_rn __fmul_rn", "any all",
    )
)  # fmt: skip
# Names in CUDA's casts, reals and whole numbers of one size: `__half_as_short` gives bits, `__half2short_rn` a value.
_SIZES = ("(half|bfloat16)", "(u?short)"), ("(float)", "(u?int)")
_CASTS = tuple(re.compile(f"__{one}(_as_|2){other}(_r[nzud])?") for pair in _SIZES for one, other in (pair, pair[::-1]))
# A value as a whole number with a sign or without one, and back: `__half2int_rz`, `__uint2float_rn`.
_ROUNDED = re.compile(
    r"__((?:half|bfloat16|float|double)2|)(u?)(int|short|ll)((?:2(?:half|bfloat16|float|double))?)(_r[nzud])"
)


def of_its_kind(name: str) -> list[str]:
    """CUDA's functions that take what one of this name takes, and do another thing to it."""
    found = [one for family in FAMILIES if name in family for one in sorted(family - {name})]
    if told := _ROUNDED.fullmatch(name):
        made, sign, whole, behind, way = told.groups()
        found.append(f"__{made}{'' if sign else 'u'}{whole}{behind}{way}")
        found += [f"__{made}{sign}{whole}{behind}_r{one}" for one in "nzdu" if made and f"_r{one}" != way]
    for cast in _CASTS:
        if told := cast.fullmatch(name):
            one, what, other, _ = told.groups()
            found.append(f"__{one}2{other}_rn" if what == "_as_" else f"__{one}_as_{other}")
    return found


# Enumerators and types of which one stands for another of its set.
ENUMERATORS: tuple[tuple[str, ...], ...] = (
    ("mem_row_major", "mem_col_major"), ("row_major", "col_major"), ("matrix_a", "matrix_b"),
)  # fmt: skip
LAYOUTS = frozenset({"mem_row_major", "mem_col_major"})
TYPES: tuple[tuple[str, ...], ...] = (("row_major", "col_major"), ("true_type", "false_type"))
"""Types without values of which one stands for another of its set, the layouts first."""

THREAD_VARIABLES = ("threadIdx", "blockIdx")
LAUNCH_VARIABLES = ("blockDim", "gridDim")
NAMES: Mapping[str, Type] = {
    **dict.fromkeys((*THREAD_VARIABLES, *LAUNCH_VARIABLES), Type("record", "dim3", of=INTEGER)),
    "warpSize": INTEGER,
    **dict.fromkeys(("INFINITY", "FLT_MAX", "FLT_MIN", "HUGE_VALF", "NAN", "CUDART_INF_F", "M_LOG2E", "M_PI"), FLOAT),
    **dict.fromkeys(LAYOUTS, Type("enum", "layout_t")),
    **dict.fromkeys(("true", "false"), BOOL),
}

_FLOATS = (
    "expf exp2f __expf logf log2f __logf __log2f sqrtf rsqrtf fmaxf fminf fabsf fmaf tanhf erff exp log sqrt rsqrt"
    " fmax fmin fabs fma tanh erf powf __powf __fdividef __frcp_rn ceilf floorf rintf truncf sinf cosf __sinf __cosf"
    " __half2float __bfloat162float __low2float __high2float __fadd_rn __fmul_rn __fsub_rn __int2float_rn"
)
_HALVES = "__float2half __float2half_rn __low2half __high2half __hadd __hmul __hsub __hmax __hmin hexp hexp2 __hfma"
_INTEGERS = "__float2int_rn __popc __ffs __clz __ballot_sync __activemask __cvta_generic_to_shared thread_rank"
_VOIDS = (*MATRIX_CALLS, "__syncthreads", "__syncwarp", "__pipeline_memcpy_async")
RESULTS: Mapping[str, Type] = {
    **dict.fromkeys(_FLOATS.split(), FLOAT),
    **dict.fromkeys(_HALVES.split(), HALF),
    **dict.fromkeys(("__float2bfloat16", "__float2bfloat16_rn"), Type("half", "bf16")),
    **dict.fromkeys(_INTEGERS.split(), INTEGER),
    **dict.fromkeys(_VOIDS, VOID),
}
# Functions that give what their argument of this number is.
LIKE_ARGUMENT: Mapping[str, int] = {
    "max": 0, "min": 0, "abs": 0, "__ldg": 0, "__shfl_sync": 1, "__shfl_up_sync": 1, "__shfl_down_sync": 1,
    "__shfl_xor_sync": 1, "atomicAdd": 1,
}  # fmt: skip
