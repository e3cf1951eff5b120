"""Products of rows with the matrices of experts that their tokens are routed to, as `fused_moe` of vLLM has it."""

from __future__ import annotations

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.model import Arrays, Drawn, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.drawn import indices
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.of_experts import SCALES, relative_error, scaled, sizes_of
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged
from wmmadiag.ops.parts.settings import EACH_B_STORED, PRODUCTS, types_of_products
from wmmadiag.ops.parts.traits import ACTIVATION, EXPONENTIAL, TENSOR_CORES


def _slots(shape: tuple[int, ...], _: ElementType, slots: int, rng: np.random.Generator) -> Doubles:
    """Every slot once, in no order, and their number in the places that are left, which are the last ones of blocks."""
    blocks = int(np.prod(shape[:-1]))
    held = np.full((max(blocks, 1), shape[-1]), slots)
    places = np.sort(rng.permutation(held.size)[: min(slots, held.size)])
    counts = np.bincount(places // held.shape[1], minlength=len(held))
    held[np.arange(held.shape[1]) < counts[:, None]] = rng.permutation(slots)[: len(places)]
    return held.reshape(shape).astype(np.float64)


def _products(parameters: Values, inputs: Arrays) -> Doubles:
    """A's row of each slot times its block's expert, times the slot's weight: (slots, N); 0 where no block has it."""
    a, b = scaled(inputs)
    choices = int(parameters["choices"])
    result = np.zeros((len(a) * choices, b.shape[-1]))
    for ids, expert in zip(inputs["ids"].astype(np.int64), inputs["experts"].astype(np.int64), strict=True):
        own = ids[ids < len(result)]
        result[own] = a[own // choices] @ b[expert]
    weights = inputs.get("slot_weights") if parameters["weighted"] else None
    return result if weights is None else result * weights.astype(np.float64)[:, None]


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    return {"d": _products(parameters, inputs)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of each slot's product: `of_experts.relative_error`, two units for its weight, then the output's
    rounding.
    """
    model = arithmetic(parameters, elements["a"])
    relative, absolute = relative_error(inputs, model, 1)
    error = _products(parameters, sizes_of(inputs, "slot_weights")) * (relative + 2.0 * model.unit) + absolute
    return judged({"d": error}, expected, elements)


OPERATION = Operation(
    name="routed_gemm",
    meaning="D[s] = slot_weights[s] · a_scales · A[s // choices] · B[experts[p]] · b_scales for the slots s = "
    "ids[p, i] of each block p",
    notes="Each token has as many slots as experts are chosen for it. `ids` has every slot once, in blocks of U of one "
    "expert each, and their number where a block has no more; so it is drawn.",
    roles={
        "a": Role("MK", spellings="a x in input lhs tokens hidden hiddenstates"),
        "b": Role("GKN", spellings="b w weight weights expertweights w13 w1 w2"),
        "ids": Role(
            "PU",
            flat=True,
            element="int",
            drawn=Drawn(_slots, "d", -2),
            spellings="ids sortedtokenids sortedids sortedslots sortedtokens sortedindices tokenids slots",
        ),
        "experts": Role(
            "P",
            element="int",
            drawn=indices("b", -3),
            spellings="experts expertids expertindices blockexperts blockexpertids expertidx",
        ),
        "slot_weights": Role(
            "R",
            ("M*choices",),
            required=False,
            spellings="topkweights topkweight routingweights routerweights gatingweights gates",
        ),
        **SCALES,
        "d": Role("RN", ("M*choices", "N"), output=True, spellings="d c y out output result"),
    },
    parameters={
        "choices": Parameter("int", "choices", "experts of each token", spellings="topk numexpertspertoken k"),
        "weighted": Parameter(
            "flag",
            "weighted",
            "whether slots are weighed",
            spellings="weighted mulroutedweight mulroutedweights mulweights applyweights",
        ),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"P": "ceil_div(M*choices, U) + G", "choices": "1", "weighted": "1"},
    made_for={"U": "number of slots of a block"},
    extents={
        "M*choices": "numvalidtokens validtokens numvalid numslots slots",
        "P*U": "em emax numtokenspostpadded numtokenspastpadded numtokenspadded paddedtokens",
        "P": "numblocks mblocks blocks",
        "G": "g groups experts numexperts nexperts e",
        "M": "m rows numtokens tokens t",
        "N": "n cols columns inter intermediate intermediatesize",
        "K": "k inner depth hiddensize hiddendim",
        "U": "u blockm blocksizem mblock blocksize bm moeblocksize",
    },
    derived={"P*U": "numtokenspostpadded numtokenspastpadded totaltokenspostpadded numslotspadded numpadded"},
    cases=(
        {"G": 2, "M": 24, "N": 64, "K": 64, "U": 16, "choices": 1},
        {"G": 4, "M": 50, "N": 128, "K": 96, "U": 16, "choices": 2},
    ),
    work="2*M*choices*N*K",
    signs=Signs(
        "fusedmoe routed routedgemm",
        parts=("gemm",),
        agreeing="moe expert experts w8a8 grouped",
        needs=(TENSOR_CORES,),
        excludes=(EXPONENTIAL, ACTIVATION),
        open="its source does not tell how the matrices of experts lie",
    ),
    choices=(EACH_B_STORED, *types_of_products("a")),
)
