"""The K largest elements of the softmax of each row, with their places: how a mixture of experts is routed."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import U64, Judgement, arithmetic, judged
from wmmadiag.ops.parts.settings import by_flag
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    x = inputs["x"].astype(np.float64)
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    chosen = np.argsort(-x, axis=-1, kind="stable")[..., : int(parameters["k"])]
    found = np.take_along_axis(weights, chosen, axis=-1)
    if parameters["renormalize"]:
        found = found / found.sum(axis=-1, keepdims=True)
    return {"weights": found, "indices": chosen.astype(np.float64)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Weights are relative to themselves: an exponential 4u and u·|x − max| of its argument, both above and below the
    line, the sum of N terms (N + 8)·u, two quotients 4u each. Places are exact."""
    x = np.abs(inputs["x"].astype(np.float64))
    unit = arithmetic(parameters, elements["x"]).unit
    relative = (x.shape[-1] + 40.0 + 4.0 * 2.0 * x.max(axis=-1, keepdims=True)) * (unit + U64)
    error = expected["weights"] * relative
    places = Judgement(np.zeros_like(expected["indices"]))
    return {**judged({"weights": error}, expected, elements), "indices": places}


OPERATION = Operation(
    name="topk_softmax",
    meaning="the K largest of softmax(X[m]), and where they are",
    roles={
        "x": Role("MN", spellings="x logits gating gatinglogits gatingoutput input in scores routerlogits"),
        "weights": Role(
            "MK",
            output=True,
            element="float",
            spellings="weights topkweights topkw output out values topkvalues probs topkprobs scales expertweights y",
        ),
        "indices": Role(
            "MK",
            output=True,
            element="int",
            spellings="indices ids topkids topkindices idx topkidx experts expertids expertindices selectedexperts",
        ),
    },
    parameters={
        "k": Parameter("count", "K", "how many are taken"),
        "renormalize": Parameter(
            "flag",
            "0",
            "whether those that are taken sum to 1",
            spellings="renormalize normalize renorm norm",
            drafted=("0", "1"),
        ),
    },
    oracle=_oracle,
    bound=_bound,
    extents={
        "M": "m rows nrows numrows tokens numtokens batch t",
        "N": "n e experts numexperts nexperts cols",
        "K": "k topk topkexperts numselected kexperts",
    },
    cases=({"M": 8, "N": 32, "K": 2}, {"M": 24, "N": 64, "K": 4}),
    signs=Signs(
        "topk gating router topkgating topksoftmax topkgatingsoftmax moegating moerouter routing",
        parts=("softmax",),
        needs=(EXPONENTIAL,),
        excludes=(TENSOR_CORES,),
        open="its source does not tell whether weights are normalised again",
    ),
    choices=(
        by_flag(
            "Do the weights that are taken sum to 1?",
            "renormalize",
            "weights as they are",
            "weights divided by their sum",
        ),
    ),
)
