"""What is known and deliberately not emulated: opcode prefix (or ".modifier" of any instruction) → why."""

from __future__ import annotations

_TMA = "TMA with tensor maps, multicast or reductions is not emulated"
_TEX = "textures and surfaces are not emulated"
_SPARSE = "sparse mma is not emulated"
_OLD = "it lacks .sync, which every architecture since sm_70 needs"

REFUSED = {
    **{f"shfl.{mode}": _OLD for mode in ("up", "down", "bfly", "idx")},
    **{f"vote.{mode}": _OLD for mode in ("all", "any", "uni", "ballot")},
    "wgmma": "wgmma (warpgroup matrix multiply) is not emulated",
    "tcgen05": "tcgen05 (fifth-generation tensor core) is not emulated",
    **dict.fromkeys(
        ("cp.async.bulk.tensor", ".multicast::cluster", "cp.reduce", "cp.async.bulk.prefetch", "st.bulk", "tensormap",
         "prefetch.tensormap"), _TMA
    ),
    "red.async": "reductions that an mbarrier counts are not emulated",
    **dict.fromkeys(("mma.sp", ".sp", ".sp::ordered_metadata", "mma.sp::ordered_metadata"), _SPARSE),
    ".block_scale": "block-scaled mma is not emulated",
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"), _TEX),
    "clusterlaunchcontrol": "the hardware's queue of clusters is not emulated",
    **dict.fromkeys(("alloca", "stacksave", "stackrestore"), "run-time stack allocation is not emulated"),
    "multimem": "multimem (multicast memory) is not emulated",
    **{
        f"v{name}{lanes}": "video (SIMD) instructions are not emulated"
        for name in ("add", "sub", "absdiff", "min", "max", "shl", "shr", "mad", "avrg", "set")
        for lanes in ("", "2", "4")
        if not lanes or name in ("shl", "shr", "mad", "avrg", "set")
    },
}  # fmt: skip
