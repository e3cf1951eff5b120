"""A step of Adam: moments of the gradient, and parameters moved by them.

Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014 (arXiv 1412.6980), algorithm 1; the decay that is apart
from the gradient: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2017 (arXiv 1711.05101), algorithm 2.
"""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.drawn import POSITIVE
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import U64, Doubles, arithmetic, judged
from wmmadiag.ops.parts.settings import by_value
from wmmadiag.ops.parts.traits import TENSOR_CORES


def _numbers(parameters: Values) -> dict[str, float]:
    names = ("lr", "beta1", "beta2", "eps", "weight_decay", "grad_scale")
    found = {name: float(parameters[name]) for name in names}
    for which in ("1", "2"):
        found[f"c{which}"] = (
            1.0 - found[f"beta{which}"] ** float(parameters["step"]) if parameters["corrected"] else 1.0
        )
    return found


def _gradient(parameters: Values, inputs: Arrays, *, sizes: bool = False) -> Doubles:
    """The gradient; with the decay that is part of it where `decay` says so."""
    own = _numbers(parameters)
    grad = own["grad_scale"] * inputs["grad"].astype(np.float64)
    if parameters["decay"] != "of-gradient":
        return np.abs(grad) if sizes else grad
    decay = own["weight_decay"] * inputs["p"].astype(np.float64)
    return np.abs(grad) + np.abs(decay) if sizes else grad + decay


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    own = _numbers(parameters)
    grad = _gradient(parameters, inputs)
    p, m, v = (inputs[role].astype(np.float64) for role in ("p", "m", "v"))
    m = own["beta1"] * m + (1.0 - own["beta1"]) * grad
    v = own["beta2"] * v + (1.0 - own["beta2"]) * grad**2
    eps = 0.0 if parameters["eps_inside"] else own["eps"]
    root = np.sqrt(v / own["c2"] + (own["eps"] if parameters["eps_inside"] else 0.0)) + eps
    moved = own["lr"] * (m / own["c1"]) / root
    if parameters["decay"] == "decoupled":
        moved = moved + own["lr"] * own["weight_decay"] * p
    return {"p_out": p - moved, "m_out": m, "v_out": v}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bounds of the moments and of the parameters.

    Coefficients such as 1 − beta are rounded before, relative to 1: 2u/(1 − beta) of them. A moment is two products
    and a sum: 6u of the sum of magnitudes, and its coefficient's error. Corrections are off by as much; a power
    beta^step in f32 by 8u, so 1 − beta^step by 8u/(1 − beta^step). With errors μ of the first moment, relative ν of
    the second one, whose root has half of that, the step moves by lr·(μ + |m|·(ν + 16u + the corrections'))/root.
    """
    model = arithmetic(parameters, elements["p"])
    unit = model.unit + 8 * U64
    own = _numbers(parameters)
    grad = _gradient(parameters, inputs, sizes=True)
    p, m, v = (np.abs(inputs[role].astype(np.float64)) for role in ("p", "m", "v"))
    apart = {one: unit * (6.0 + 2.0 / max(1.0 - own[f"beta{one}"], 1e-6)) for one in ("1", "2")}
    error_m = 6.0 * unit * own["beta1"] * m + apart["1"] * (1.0 - own["beta1"]) * grad
    error_v = 6.0 * unit * own["beta2"] * v + 2.0 * apart["2"] * (1.0 - own["beta2"]) * grad**2
    size_m = own["beta1"] * m + (1.0 - own["beta1"]) * grad
    corrections = {one: unit * (4.0 + 10.0 / max(own[f"c{one}"], 1e-6)) for one in ("1", "2")}
    new_v = np.abs(expected["v_out"])
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(new_v / own["c2"] + (own["eps"] if parameters["eps_inside"] else 0.0))
        root = root + (0.0 if parameters["eps_inside"] else own["eps"])
        relative = np.where(new_v > 0, error_v / new_v, 0.0) + 16.0 * unit + corrections["1"] + corrections["2"]
        moved = own["lr"] / own["c1"] * (error_m + size_m * relative) / root
    decay = own["lr"] * own["weight_decay"] * p
    error_p = moved + 8.0 * unit * (decay + p + np.abs(expected["p_out"]))
    errors = {"p_out": error_p, "m_out": error_m, "v_out": error_v}
    return judged({role: np.nan_to_num(error, nan=0.0) for role, error in errors.items()}, expected, elements)


OPERATION = Operation(
    name="adam",
    meaning="m = β₁m + (1 − β₁)g, v = β₂v + (1 − β₂)g², p −= lr·((m/c₁)/(√(v/c₂) + eps) + decay·p)",
    notes="c₁ and c₂ are 1 − β^step, or 1 where `corrected` says so.",
    roles={
        "p": Role("N", spellings="p param params parameters w weight weights theta x masterparams"),
        "grad": Role("N", spellings="grad grads g gradient gradients dw dparams dparam"),
        "m": Role("N", spellings="m mmemory expavg expavgs mom1 moment1 firstmoment m1"),
        "v": Role("N", drawn=POSITIVE, spellings="v vmemory expavgsq expavgsqs mom2 moment2 secondmoment m2"),
        "p_out": Role("N", output=True, updates="p", spellings="pout paramsout"),
        "m_out": Role("N", output=True, updates="m", spellings="mout"),
        "v_out": Role("N", output=True, updates="v", spellings="vout"),
    },
    parameters={
        "lr": Parameter("cap", "0.1", "learning rate", spellings="lr learningrate alpha stepsize eta"),
        "beta1": Parameter("cap", "0.9", "decay of the first moment", spellings="beta1 b1"),
        "beta2": Parameter("cap", "0.99", "decay of the second moment", spellings="beta2 b2"),
        "eps": Parameter("cap", "0.01", "added to the root", spellings="eps epsilon"),
        "weight_decay": Parameter("cap", "0.2", "decay of the parameters", spellings="weightdecay wd decay lambda"),
        "grad_scale": Parameter("real", "1", "factor of the gradient", spellings="gradscale"),
        "step": Parameter("count", "3", "number of the step, from 1 on", spellings="step t iteration iter timestep"),
        "corrected": Parameter("flag", "1", "whether the moments are divided by 1 − β^step"),
        "decay": Parameter("word", "decoupled", "what decays", ("decoupled", "of-gradient", "none")),
        "eps_inside": Parameter("flag", "0", "whether eps is added below the root"),
    },
    oracle=_oracle,
    bound=_bound,
    extents={"N": "n size count length len numparameters numparams numel numelements nelements total"},
    derived={
        "1 - {beta1}**{step}": "beta1correction biascorrection1 bc1 correction1 bias1 c1",
        "1 - {beta2}**{step}": "beta2correction biascorrection2 bc2 correction2 bias2 c2",
    },
    cases=({"N": 512}, {"N": 4096}),
    signs=Signs("adam adamw adamupdate adamwupdate adamkernel adamwkernel", excludes=(TENSOR_CORES,)),
    choices=(
        by_value(
            "What decays?",
            "meaning",
            "decay",
            {
                "parameters decay apart from the gradient": "decoupled",
                "the decay is part of the gradient": "of-gradient",
                "nothing decays": "none",
            },
        ),
        by_value(
            "Are the moments corrected?",
            "meaning",
            "corrected",
            {"moments divided by 1 − β^step": "1", "moments as they are": "0"},
        ),
    ),
)
