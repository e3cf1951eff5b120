"""Special registers. Source: PTX ISA 9.x, "Special Registers"."""

from __future__ import annotations

from collections.abc import Mapping

_VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_WORDS = (
    "laneid warpid nwarpid smid nsmid is_explicit_cluster cluster_ctarank cluster_nctarank lanemask_eq "
    "lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi globaltimer_lo globaltimer_hi "
    "reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap total_smem_size "
    "aggr_smem_size dynamic_smem_size"
)

SPECIAL: Mapping[str, str] = {
    **{f"%{name}.{axis}": "u32" for name in _VECTORS for axis in "xyzw"},
    **{f"%{name}": "u32" for name in _WORDS.split()},
    **{f"%{name}": "u64" for name in ("clock64", "globaltimer", "gridid", "current_graph_exec")},
    **{f"%pm{index}": "u32" for index in range(8)},
    **{f"%pm{index}_64": "u64" for index in range(8)},
    **{f"%envreg{index}": "u32" for index in range(32)},
    **{f"%reserved_smem_offset_{index}": "u32" for index in range(2)},
}
"""Special register → its type."""
