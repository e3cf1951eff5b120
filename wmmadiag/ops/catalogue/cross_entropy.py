"""The loss of each row of logits: the logarithm of the softmax of the element that is its target."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Distance, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.drawn import indices
from wmmadiag.ops.parts.hard_inputs import SCORES
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import U64, Doubles, arithmetic, judged
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _parts(inputs: Arrays) -> tuple[Doubles, Doubles, Doubles]:
    """The largest element of each row, the logarithm of the sum of what it is the scale of, and the target's."""
    rows = inputs["x"].astype(np.float64)
    most = rows.max(axis=-1)
    total = np.exp(rows - most[..., None]).sum(axis=-1)
    chosen = np.take_along_axis(rows, inputs["targets"].astype(np.int64)[..., None], axis=-1)[..., 0]
    return most, np.log(total), chosen


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    most, logarithm, chosen = _parts(inputs)
    share = float(parameters["smoothing"])
    wanted = (1.0 - share) * chosen + share * inputs["x"].astype(np.float64).mean(axis=-1)
    return {"loss": logarithm + most - wanted, "lse": logarithm + most}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of log Σ exp(x − m) + m − x_t, row by row.

    Each exponential is off by 4u, and by u·|x − m| of its argument, at most 2u·max|x − m|·e^(x−m) in the sum, below
    2u of the sum for all that count; an online sum rescales N times, a unit each; the sum of N terms costs (N + 8)·u.
    The logarithm has the relative error of its argument as its own absolute one, and 4u of itself. Then two sums of
    |m|, |x_t| and the logarithm: 3u of each. Labels that are smoothed add the mean of a row's elements, (N + 8)·u of
    that of their sizes, and three products.
    """
    model = arithmetic(parameters, elements["x"])
    most, logarithm, chosen = _parts(inputs)
    count = inputs["x"].shape[-1]
    relative = (2.0 * count + 24.0) * model.unit + (count + 8) * U64
    lse = relative + 4.0 * model.unit * (np.abs(logarithm) + np.abs(most))
    loss = lse + 4.0 * model.unit * (np.abs(chosen) + np.abs(most))
    if share := abs(float(parameters["smoothing"])):
        size = np.abs(inputs["x"].astype(np.float64)).mean(axis=-1)
        loss = loss + 4.0 * model.unit * (np.abs(logarithm) + np.abs(most) + np.abs(chosen))
        loss = loss + share * (count + 12.0) * model.unit * size
    errors = {"loss": loss, "lse": lse}
    return judged(errors, expected, elements)


OPERATION = Operation(
    name="cross_entropy",
    meaning="loss[t] = log(Σ exp(X[t])) − (1 − smoothing) · X[t, targets[t]] − smoothing · mean(X[t])",
    roles={
        "x": Role("BTN", ("batch", "T", "N"), spellings="x logits input in inp src scores"),
        "targets": Role(
            "BT",
            ("batch", "T"),
            element="int",
            drawn=indices("x", -1),
            spellings="targets target labels label t y gt classes",
        ),
        "loss": Role("BT", ("batch", "T"), output=True, spellings="loss losses out output nll dst result l"),
        "lse": Role("BT", ("batch", "T"), output=True, required=False, spellings="lse logsumexp maxlogsumexp"),
    },
    parameters={
        "smoothing": Parameter(
            "real",
            "0",
            "share of the label that all classes get",
            spellings="smoothing labelsmoothing",
            drafted=("0", "0.125"),
        ),
        "accumulate": Parameter("word", "auto", "type of the sums", ("auto", "f32", "f64")),
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"batch": "1"},
    separate=("batch",),
    optional="batch",
    extents={
        "batch*T": "bt",
        "batch": "b batch batchsize",
        "T": "t n m rows nrows numrows tokens numtokens seqlen seq",
        "N": "v vocab vocabsize nvocab cols ncols numcols columns classes numclasses nclasses c",
    },
    distances=(Distance("x", "N", "vp p paddedvocabsize vocabpadded ldlogits stride rowstride logitsstride"),),
    cases=({"T": 8, "N": 64}, {"T": 48, "N": 320}),
    hard_inputs=SCORES,
    signs=Signs(
        "crossentropy crossentropyforward softmaxcrossentropy celoss xent nllloss",
        parts=("softmax",),
        needs=(EXPONENTIAL,),
        excludes=(TENSOR_CORES,),
    ),
)
