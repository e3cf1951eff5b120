"""Rows of a table that indices pick, with rows for their positions added."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.drawn import indices
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Judgement, arithmetic, output_rounding
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    y = float(parameters["scale"]) * inputs["table"].astype(np.float64)[inputs["indices"].astype(np.int64)]
    return {"y": y + inputs["positions"].astype(np.float64) if "positions" in inputs else y}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """A copy is exact; a factor and a sum of two rows are one rounding each in the working type."""
    unit = arithmetic(parameters, elements["table"]).unit
    scaled = float(parameters["scale"]) != 1.0
    error = (2.0 * scaled + ("positions" in inputs)) * unit * np.abs(expected["y"])
    if scaled and "positions" in inputs:
        error = error + 2.0 * unit * np.abs(inputs["positions"].astype(np.float64))
    plain = not scaled and "positions" not in inputs and elements["y"].name == elements["table"].name
    found = np.zeros_like(error) if plain else output_rounding(error, expected["y"], elements["y"])
    return {"y": Judgement(found)}


OPERATION = Operation(
    name="embedding",
    meaning="Y[t] = scale · table[indices[t]] + positions[t]",
    roles={
        "indices": Role(
            "BT",
            ("batch", "T"),
            element="int",
            drawn=indices("table", -2),
            spellings="indices index idx ids inputids tokens tokenids inp input x",
        ),
        "table": Role("VN", spellings="table wte weight weights embedding embeddings emb w embtable"),
        "positions": Role("TN", required=False, spellings="wpe positions pos posemb positionembedding posembedding"),
        "y": Role("BTN", ("batch", "T", "N"), output=True, spellings="y out output dst o result"),
    },
    parameters={"scale": Parameter("real", "1", "factor of the table", spellings="scale", drafted=("1", "2"))},
    oracle=_oracle,
    bound=_bound,
    symbols={"batch": "1", "V": "T + 5"},
    separate=("batch",),
    optional="batch",
    extents={
        "batch*T": "numtokens ntokens tokens numindices bt",
        "batch": "b batch batchsize",
        "T": "t seqlen seq n rows m",
        "V": "v vocab vocabsize nvocab numembeddings",
        "N": "c d dim channels hidden hiddensize embeddim embsize embdim cols emb",
    },
    cases=({"T": 8, "N": 64}, {"batch": 2, "T": 48, "N": 320}),
    signs=Signs(
        "embedding embeddings encoder embed lookup embeddinglookup wte tokenembedding encoderforward",
        excludes=(TENSOR_CORES, EXPONENTIAL),
    ),
)
