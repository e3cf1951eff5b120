"""Where the largest element of each row is."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, Judgement, judged
from wmmadiag.ops.parts.settings import by_value
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _ranked(parameters: Values, inputs: Arrays) -> Doubles:
    """The elements, those that are looked for being the largest."""
    x = inputs["x"].astype(np.float64)
    return -x if parameters["which"] == "smallest" else x


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    ranked = _ranked(parameters, inputs)
    places = ranked.argmax(axis=-1)
    values = np.take_along_axis(inputs["x"].astype(np.float64), places[..., None], axis=-1)[..., 0]
    return {"index": places.astype(np.float64), "value": values}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Exact; of several elements alike the place of any."""
    ranked = _ranked(parameters, inputs)
    alike = (ranked == ranked.max(axis=-1, keepdims=True)).sum(axis=-1) > 1
    places = Judgement(np.where(alike, float(ranked.shape[-1]), 0.0))
    return {"index": places, **judged({"value": np.zeros_like(expected["value"])}, expected, elements)}


OPERATION = Operation(
    name="argmax",
    meaning="index[m] = the place of the largest X[m, n] along n",
    roles={
        "x": Role("MN", spellings="x logits in input inp src data scores probs probabilities values a"),
        "index": Role(
            "M",
            output=True,
            element="int",
            spellings="index indices idx result out output y argmax ids tokens nexttoken nexttokens token",
        ),
        "value": Role("M", output=True, required=False, spellings="value max maxval maxvalue maxvalues best"),
    },
    parameters={
        "which": Parameter(
            "word",
            "largest",
            "which element is looked for",
            ("largest", "smallest"),
            named={"argmax": "largest", "argmin": "smallest"},
        )
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"M": "1"},
    optional="M",
    rows="M",
    extents={
        "M": "m rows nrows numrows tokens numtokens batch batchsize b",
        "N": "n size vocab vocabsize v cols columns ncols numcols count length len",
    },
    cases=({"M": 1, "N": 320}, {"M": 5, "N": 4096}),
    signs=Signs("argmax argmin", excludes=(TENSOR_CORES, EXPONENTIAL)),
    choices=(
        by_value(
            "Which element is looked for?",
            "meaning",
            "which",
            {"the place of the largest": "largest", "the place of the smallest": "smallest"},
        ),
    ),
)
