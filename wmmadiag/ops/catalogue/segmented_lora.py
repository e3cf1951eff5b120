"""Low-rank updates of rows with adapters of their own, segment by segment, as servers of many adapters have it.

Chen et al., Punica: Multi-Tenant LoRA Serving, 2023 (arXiv 2310.18547), section 4: SGMV.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from wmmadiag.ops.catalogue.grouped_gemm import OPERATION as GROUPED
from wmmadiag.ops.catalogue.lora import OPERATION as LORA
from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.drawn import indices
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Judgement
from wmmadiag.ops.parts.settings import NARROW, PRODUCTS, added_to_output, kept_in, types_of_products, weights_lie

assert LORA.oracle is not None and LORA.bound is not None
_ORACLE_OF_ONE, _BOUND_OF_ONE = LORA.oracle, LORA.bound


def _segments(parameters: Values, inputs: Arrays) -> Iterator[tuple[slice, Values, dict[str, NDArray[Any]]]]:
    """The rows of each segment, with the parameters and tensors of its update; none where its adapter is below 0."""
    starts, ids = (np.atleast_1d(inputs[role].astype(np.int64)) for role in ("starts", "ids"))
    layer = int(parameters["layer"])
    for one, adapter in enumerate(ids):
        rows = slice(int(starts[one]), int(starts[one + 1]))
        if adapter < 0 or rows.stop <= rows.start:
            continue
        factor = float(inputs["scales"][adapter]) if "scales" in inputs else 1.0
        own = {**parameters, "alpha": float(parameters["alpha"]) * factor}
        tensors = {"x": inputs["x"][rows], "down": inputs["down"][adapter, layer], "up": inputs["up"][adapter, layer]}
        yield rows, own, tensors | ({"c": inputs["c"][rows]} if "c" in inputs else {})


def _whole(inputs: Arrays) -> dict[str, NDArray[Any]]:
    """The adapters with an axis of adapters and one of layers, where one of these is left out."""
    return {**inputs} | {
        role: inputs[role].reshape((1,) * (4 - inputs[role].ndim) + inputs[role].shape) for role in ("down", "up")
    }


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    inputs = _whole(inputs)
    out = np.zeros((inputs["x"].shape[0], inputs["up"].shape[-2]))
    if "c" in inputs:
        out = float(parameters["beta"]) * inputs["c"].astype(np.float64)
    for rows, own, tensors in _segments(parameters, inputs):
        out[rows] = _ORACLE_OF_ONE(own, tensors)["d"]
    return {"d": out}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Of each segment the bound of `lora`; rows of no adapter are what they were."""
    bound = np.zeros_like(expected["d"])
    for rows, own, tensors in _segments(parameters, _whole(inputs)):
        bound[rows] = _BOUND_OF_ONE(own, tensors, {"d": expected["d"][rows]}, elements)["d"].bound
    return {"d": Judgement(bound)}


OPERATION = Operation(
    name="segmented_lora",
    meaning="D[i] = beta · C[i] + alpha · scales[a] · (X[i]·A[a]ᵀ)·B[a]ᵀ, a = ids[s], for the rows i of segment s, "
    "starts[s] ≤ i < starts[s + 1]",
    notes="Adapters are as nn.Linear has them, R×K and N×R, one behind the other, those of all layers of a model "
    "together: `layer` says which one is meant. `starts` has one number more than there are segments; those that are "
    "drawn have segments of different lengths, one of them empty. Rows of an adapter below 0 have no update.",
    roles={
        "x": LORA.roles["x"],
        "down": Role("LZRK", spellings=LORA.roles["down"].spellings + " aweights loraaweights"),
        "up": Role("LZNR", spellings=LORA.roles["up"].spellings + " bweights lorabweights"),
        "starts": replace(
            GROUPED.roles["starts"],
            axes="E",
            shape=("G + 1",),
            drawn=replace(GROUPED.roles["starts"].drawn, role="x") if GROUPED.roles["starts"].drawn else None,
            spellings=GROUPED.roles["starts"].spellings + " segptr segments segindptr segstarts "
            "segmentptr segoffsets s",
        ),
        "ids": Role(
            "G",
            element="int",
            drawn=indices("down", -4),
            spellings="ids loraids loraindices adapterids adapters adapterindices indices weightindices segids",
        ),
        "scales": Role("L", required=False, element="float", spellings="scales scalings lorascales adapterscales"),
        "c": LORA.roles["c"],
        "d": LORA.roles["d"],
    },
    parameters={
        **{name: one for name, one in LORA.parameters.items() if name not in (*PRODUCTS, "base_dtype")},
        "layer": Parameter(
            "count",
            "0",
            "which of the layers is meant",
            spellings="layer layeridx layerindex layerid",
            drafted=("0", "1"),
        ),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"L": "G", "Z": "1"},
    made_for={"R": "rank"},
    extents={
        "G": "g numsegments segments nsegments numsegs batchsize batch b numproblems",
        "L": "l numloras nloras numadapters nadapters maxloras",
        "Z": "z numlayers nlayers layers",
        "M": "m rows nrows numrows tokens ntokens numtokens maxsegment maxseglen maxsegmentlen maxseqlen maxrows",
        "N": LORA.extents["N"],
        "K": LORA.extents["K"],
        "R": LORA.extents["R"],
    },
    longest="maxsegment maxseglen maxsegmentlen maxseqlen maxrows",
    cases=(
        {"G": 2, "L": 2, "Z": 2, "M": 48, "N": 64, "K": 64, "R": 16},
        {"G": 4, "L": 3, "Z": 3, "M": 150, "N": 192, "K": 128, "R": 32},
    ),
    groups="G",
    work="2*M*R*(K + N)",
    signs=Signs(
        "sgmv bgmv segmentedlora multilora lorasegments lorashrink loraexpand punica",
        parts=("lora", "grouped_gemm", "gemm"),
        open="its source does not tell how the matrices of adapters lie",
    ),
    choices=(
        weights_lie("A", "down", "LZRK", each="each "),
        weights_lie("B", "up", "LZNR", each="each "),
        added_to_output("the update"),
        *types_of_products("x"),
        kept_in("x", "the narrow product", "middle_dtype", *NARROW),
    ),
)
