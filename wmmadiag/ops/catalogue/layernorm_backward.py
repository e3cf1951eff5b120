"""The backward pass of LayerNorm: gradients of its rows, its weight and its bias, each as far as a kernel has it."""

from __future__ import annotations

from wmmadiag.ops.catalogue.layernorm import OPERATION as LAYERNORM
from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Values
from wmmadiag.ops.parts import norm_gradients, norms


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    return norm_gradients.gradients(parameters, inputs, centred=True)


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Derived in `parts.norm_gradients`."""
    return norm_gradients.bounds(parameters, inputs, expected, elements, centred=True)


OPERATION = Operation(
    name="layernorm_backward",
    meaning="dX = rstd · (g − mean(g) − x̂ · mean(g ∘ x̂)), dweight = Σ dY ∘ x̂, dbias = Σ dY over rows, with "
    "x̂ = (X − mean)·rstd and g = dY ∘ weight",
    notes="Without `mean` and `rstd` they are those of each row. `beta` and `sums_beta` are what is multiplied with "
    "what dX, and the other two gradients, held before.",
    roles=norm_gradients.inputs_and_outputs(centred=True),
    parameters={"eps": norms.eps("1e-5", "added to the variance"), **norm_gradients.parameters(centred=True)},
    oracle=_oracle,
    bound=_bound,
    extents=LAYERNORM.extents,
    cases=LAYERNORM.cases,
    work="12*M*N",
    signs=norm_gradients.signs("layernorm", "layernorm ln layernormalization norm"),
    choices=(norm_gradients.HELD,),
)
