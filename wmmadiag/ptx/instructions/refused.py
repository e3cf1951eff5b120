"""What is known and deliberately not emulated: opcode prefix (or ".modifier" of any instruction) → why."""

from __future__ import annotations

_TMA = "TMA with tensor maps, multicast or reductions is not emulated"
_TEX = "textures and surfaces are not emulated"
_STACK = "run-time stack allocation is not emulated"
_MULTIMEM = "multimem (multicast memory) is not emulated"

_OLD = "it lacks .sync, which every architecture since sm_70 needs"

REFUSED = {
    **{f"shfl.{mode}": _OLD for mode in ("up", "down", "bfly", "idx")},
    **{f"vote.{mode}": _OLD for mode in ("all", "any", "uni", "ballot")},
    "wgmma": "wgmma (warpgroup matrix multiply) is not emulated",
    "tcgen05": "tcgen05 (fifth-generation tensor core) is not emulated",
    "cp.async.bulk.tensor": _TMA,
    ".multicast::cluster": _TMA,
    "cp.reduce": _TMA,
    "cp.async.bulk.prefetch": _TMA,
    "st.bulk": _TMA,
    "red.async": "reductions that an mbarrier counts are not emulated",
    "tensormap": _TMA,
    "prefetch.tensormap": _TMA,
    "mma.sp": "sparse mma is not emulated",
    ".sp": "sparse mma is not emulated",
    ".sp::ordered_metadata": "sparse mma is not emulated",
    "mma.sp::ordered_metadata": "sparse mma is not emulated",
    ".block_scale": "block-scaled mma is not emulated",
    "tex": _TEX,
    "tld4": _TEX,
    "txq": _TEX,
    "suld": _TEX,
    "sust": _TEX,
    "sured": _TEX,
    "suq": _TEX,
    "istypep": _TEX,
    "clusterlaunchcontrol": "the hardware's queue of clusters is not emulated",
    "alloca": _STACK,
    "stacksave": _STACK,
    "stackrestore": _STACK,
    "multimem": _MULTIMEM,
    **{
        f"v{name}{lanes}": "video (SIMD) instructions are not emulated"
        for name in ("add", "sub", "absdiff", "min", "max", "shl", "shr", "mad", "avrg", "set")
        for lanes in ("", "2", "4")
        if not lanes or name in ("shl", "shr", "mad", "avrg", "set")
    },
}
