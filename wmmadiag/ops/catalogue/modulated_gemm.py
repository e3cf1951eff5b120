"""A product of rows that are normalised, then scaled and shifted for each image: the adaptive LayerNorm of DiT blocks.

Peebles and Xie, Scalable Diffusion Models with Transformers, 2023 (arXiv 2212.09748), section 3.2: adaLN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from wmmadiag.ops.catalogue.norm_gemm import OPERATION as PLAIN
from wmmadiag.ops.model import Arrays, Distance, Elements, Judged, Outputs, Role, Values
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Judgement

assert PLAIN.oracle is not None and PLAIN.bound is not None and PLAIN.signs is not None
_ORACLE_OF_ONE, _BOUND_OF_ONE = PLAIN.oracle, PLAIN.bound


def _images(inputs: Arrays) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """Each image, with the tensors of a product of its normalised rows."""
    plain = {role: inputs[role] for role in ("b", "bias") if role in inputs}
    for image in range(len(inputs["x"])):
        own = {"x": "x", "scale": "gamma", "shift": "beta"}
        yield image, {**plain, **{to: inputs[role][image] for role, to in own.items()}}


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    return {"d": np.stack([_ORACLE_OF_ONE(parameters, tensors)["d"] for _, tensors in _images(inputs)])}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Of each image the bound of `norm_gemm`."""
    kinds = {**elements, "gamma": elements["scale"], "beta": elements["shift"]}
    bound = np.zeros_like(expected["d"])
    for image, tensors in _images(inputs):
        bound[image] = _BOUND_OF_ONE(parameters, tensors, {"d": expected["d"][image]}, kinds)["d"].bound
    return {"d": Judgement(bound)}


_DEFAULTS = {"norm": "layernorm", "unit_offset": "1"}

OPERATION = replace(
    PLAIN,
    name="modulated_gemm",
    meaning="D[i] = activation(((1 + scale[i]) · norm(X[i]) + shift[i])·op(B) + bias) for each image i, norm along K",
    roles={
        "x": Role("ITK", spellings=PLAIN.roles["x"].spellings),
        "shift": Role("IK", spellings="shift shiftmsa shiftmlp modshift beta"),
        "scale": Role("IK", spellings="scale scalemsa scalemlp modscale gamma"),
        "b": PLAIN.roles["b"],
        "bias": Role("ITN", required=False, usual="N", spellings=PLAIN.roles["bias"].spellings),
        "d": Role("ITN", output=True, spellings=PLAIN.roles["d"].spellings),
    },
    parameters={name: replace(one, default=_DEFAULTS.get(name, one.default)) for name, one in PLAIN.parameters.items()},
    oracle=_oracle,
    bound=_bound,
    extents={
        "I*T": "m rows nrows numrows ntokens",
        "I": "i b batch batchsize images nimages",
        "T": "t s seq seqlen tokens numtokens length sequencelength",
        "N": PLAIN.extents["N"] + " odim o",
        "K": PLAIN.extents["K"],
    },
    distances=(
        Distance("shift", "K", "condstride modstride modulationstride"),
        *(one for one in PLAIN.distances if one.role in ("x", "d")),
    ),
    cases=({"I": 2, "T": 32, "N": 64, "K": 64}, {"I": 3, "T": 48, "N": 192, "K": 320}),
    work="2*I*T*N*K",
    signs=replace(
        PLAIN.signs,
        names="adaln adalnlinear adalngemm adalayernorm adalnzero modulate modulatelinear modulategemm modulated",
        parts=("norm_gemm", "gemm", "layernorm", "rmsnorm"),
    ),
    choices=tuple(one for one in PLAIN.choices if {*one.roles} <= {"x", "b"}),
)
