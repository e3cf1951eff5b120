"""The backward pass of RMSNorm: gradients of its rows and its weight, each as far as a kernel has it."""

from __future__ import annotations

from wmmadiag.ops.catalogue.rmsnorm import OPERATION as RMSNORM
from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Values
from wmmadiag.ops.parts import norm_gradients, norms


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    return norm_gradients.gradients(parameters, inputs, centred=False)


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Derived in `parts.norm_gradients`."""
    return norm_gradients.bounds(parameters, inputs, expected, elements, centred=False)


OPERATION = Operation(
    name="rmsnorm_backward",
    meaning="dX = rstd · (g − x̂ · mean(g ∘ x̂)), dweight = Σ dY ∘ x̂ over rows, with x̂ = X·rstd and g = dY ∘ weight",
    notes="Without `rstd` it is 1/√(mean(X²) + eps) of each row. `beta` and `sums_beta` are what is multiplied with "
    "what dX, and the gradient of the weight, held before.",
    roles=norm_gradients.inputs_and_outputs(centred=False),
    parameters={
        "eps": norms.eps("1e-6", "added to the mean square"),
        "unit_offset": Parameter("flag", "0", "the factor is 1 + weight, as Gemma has it"),
        **norm_gradients.parameters(centred=False),
    },
    oracle=_oracle,
    bound=_bound,
    extents=RMSNORM.extents,
    cases=RMSNORM.cases,
    work="10*M*N",
    signs=norm_gradients.signs("rmsnorm", "rmsnorm rms"),
    choices=(
        norms.column_factor("weight", "the weight itself", "1 + the weight, as Gemma has it"),
        norm_gradients.HELD,
    ),
)
