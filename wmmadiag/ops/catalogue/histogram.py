"""How often each number is among those given."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Role, Signs, Values
from wmmadiag.ops.parts.drawn import indices
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Judgement
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    del parameters
    start = inputs["start"].astype(np.float64)
    counted = np.bincount(inputs["x"].astype(np.int64).reshape(-1), minlength=start.size)[: start.size]
    return {"bins": start + counted}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Whole numbers are exact."""
    del parameters, inputs, elements
    return {"bins": Judgement(np.zeros_like(expected["bins"]))}


OPERATION = Operation(
    name="histogram",
    meaning="bins[i] = start[i] + the number of elements of X that are i",
    roles={
        "x": Role(
            "N",
            element="int",
            drawn=indices("start", -1),
            spellings="x data in input inp src buffer values image img a",
        ),
        "start": Role(
            "I",
            element="int",
            spellings="start bins hist histogram histo out output counts result y b partialhistograms",
        ),
        "bins": Role("I", output=True, element="int", updates="start", spellings="binsout"),
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"I": "256"},
    extents={
        "N": "n size count length len numel numelements nelements total npixels",
        "I": "numbins nbins bins binscount bincount",
    },
    cases=({"N": 512}, {"N": 5000}),
    signs=Signs("histogram hist histo histogramkernel", excludes=(TENSOR_CORES, EXPONENTIAL)),
)
