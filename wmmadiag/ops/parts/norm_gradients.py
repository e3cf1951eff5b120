"""The backward passes of LayerNorm and RMSNorm: what they have in common.

With x̂ = (x − mean)·rstd and g = dy·weight: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)), the mean of g only where rows are
centred; dweight = Σ dy·x̂ and dbias = Σ dy over rows. Means and reciprocal deviations that a kernel is given are taken
as they are: nothing here needs them to be those of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmmadiag.ops.model import Alternative, Arrays, Choice, Elements, Judged, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts import norms
from wmmadiag.ops.parts.drawn import RECIPROCALS
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, oracle_error, product_error
from wmmadiag.ops.parts.traits import TENSOR_CORES

_SUMS = ("dweight", "dbias")


def inputs_and_outputs(*, centred: bool) -> dict[str, Role]:
    """The tensors of a backward pass. `centred`: whether a mean is subtracted, and there is a bias."""
    held = {"dx": "MN", "dweight": "N"} | ({"dbias": "N"} if centred else {})
    words = {
        "dx": "dx dinp dinput gradinput gradinp gradx inputgrad din",
        "dweight": "dweight dw gradweight dgamma gradgamma gradw dscale dg",
        "dbias": "dbias db gradbias dbeta gradbeta gradb",
    }
    mean = {"mean": Role("M", required=False, spellings="mean means mu savedmean savemean")} if centred else {}
    return {
        "dy": Role("MN", spellings="dy dout doutput gradout gradoutput grady dz outgrad outputgrad grad"),
        "x": Role("MN", spellings="x in inp input inputs"),
        "weight": norms.ROLES["weight"],
        **mean,
        "rstd": Role(
            "M", required=False, drawn=RECIPROCALS, spellings=f"{norms.RSTD.spellings} savedrstd saverstd invstddev"
        ),
        "dresidual": Role("MN", required=False, spellings="dresidual dres gradresidual residualgrad dskip"),
        **{f"{role}_held": Role(axes, required=False, spellings=f"{role}held") for role, axes in held.items()},
        **{
            role: Role(axes, output=True, required=False, updates=f"{role}_held", spellings=words[role])
            for role, axes in held.items()
        },
    }


def parameters(*, centred: bool) -> dict[str, Parameter]:
    """Factors of what gradients held before: of dX, and of those that are sums over rows."""
    sums = "dweight_held dbias_held" if centred else "dweight_held"
    return {
        "beta": Parameter("real", "0", "factor of what dX held before", factor_of="dx_held"),
        "sums_beta": Parameter("real", "0", "factor of what the other gradients held before", factor_of=sums),
    }


HELD = Choice(
    "Are gradients added to what their arrays held before?",
    "meaning",
    (
        Alternative("gradients written without being read", {"beta": "0", "sums_beta": "0"}, updated=False),
        Alternative("each gradient added to what was there", {"beta": "1", "sums_beta": "1"}, updated=True),
    ),
)


def signs(name: str, names: str) -> Signs:
    """What tells the backward pass of a norm. `names`: how the norm itself is called."""
    endings = ("backward", "bwd", "grad", "backwards")
    told = " ".join(f"{word}{ending}" for word in names.split() for ending in endings)
    return Signs(
        told,
        parts=(name,),
        agreeing="bwd backward backwards grad norm dx dgamma",
        excludes=(TENSOR_CORES,),
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the gradients are made of; errors are absolute, and each of the same shape as what it is of."""

    dy: Doubles  # (M, N)
    normed: Doubles  # x̂, (M, N). of_normed: its error. size: rstd·(|x| + |mean|), which no term of x̂ exceeds.
    of_normed: Doubles
    size: Doubles
    factor: Doubles  # of dy in g, (N,), or one number
    rstd: Doubles  # (M, 1). of_rstd: relative.
    of_rstd: Doubles


def _parts(parameters: Values, inputs: Arrays, elements: Elements | None, *, centred: bool) -> _Parts:
    """`elements`: None where no errors are asked for."""
    x = inputs["x"].astype(np.float64)
    unit = 0.0 if elements is None else arithmetic(parameters, elements["x"]).unit
    factor = inputs["weight"].astype(np.float64) if "weight" in inputs else np.ones(1)
    if "weight" in inputs and parameters.get("unit_offset"):
        factor = factor + 1.0
    mean = x.mean(axis=-1, keepdims=True) if centred else np.zeros((x.shape[0], 1))
    of_mean = np.zeros_like(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        if elements is not None:
            found = norms.statistics({**parameters, "variance": "any"}, {"x": inputs["x"]}, elements, centred=centred)
            rstd, of_rstd, of_mean = found.rstd, found.rstd_error, found.mean_error
        else:
            rstd = 1.0 / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + float(parameters["eps"]))
            of_rstd = np.zeros_like(rstd)
        if "mean" in inputs:
            given = inputs["mean"].astype(np.float64)[:, None]
            if "rstd" not in inputs:  # about the given mean, of which nothing says that it is the rows'
                rstd = 1.0 / np.sqrt(((x - given) ** 2).mean(axis=-1, keepdims=True) + float(parameters["eps"]))
            mean, of_mean = given, np.zeros_like(given)
        if "rstd" in inputs:
            rstd, of_rstd = inputs["rstd"].astype(np.float64)[:, None], np.zeros_like(rstd)
        normed, size = (x - mean) * rstd, rstd * (np.abs(x) + np.abs(mean))
        of_normed = rstd * of_mean * (1.0 + of_rstd) + np.abs(normed) * of_rstd + 4.0 * unit * size * (1.0 + of_rstd)
    return _Parts(inputs["dy"].astype(np.float64), normed, of_normed, size, factor, rstd, of_rstd)


def gradients(parameters: Values, inputs: Arrays, *, centred: bool) -> Outputs:
    """dX, and the gradients of weight and bias, in float64."""
    one = _parts(parameters, inputs, None, centred=centred)
    g = one.dy * one.factor
    along = (g * one.normed).mean(axis=-1, keepdims=True)
    whole = g.mean(axis=-1, keepdims=True) if centred else 0.0
    found = {"dx": one.rstd * (g - whole - one.normed * along), "dweight": (one.dy * one.normed).sum(axis=0)}
    found |= {"dbias": one.dy.sum(axis=0)} if centred else {}
    if "dresidual" in inputs:
        found["dx"] = found["dx"] + inputs["dresidual"].astype(np.float64)
    for role, beta in (("dx", "beta"), *((role, "sums_beta") for role in _SUMS)):
        if f"{role}_held" in inputs and role in found and float(parameters[beta]):
            found[role] = found[role] + float(parameters[beta]) * inputs[f"{role}_held"].astype(np.float64)
    return found


def bounds(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements, *, centred: bool) -> Judged:
    """Bounds of the gradients. With u the unit of scalar work and γ(k) = k·u/(1 − k·u):

    1. Means and reciprocal deviations that are not given are off as `norms.statistics` derives, δ absolute and ε
       relative; x̂ then by rstd·δ·(1 + ε) + |x̂|·ε, and by 4u·rstd·(|x| + |mean|) for its own difference and products,
       in whichever order: e.
    2. g = dy·weight: 2u. mean(g·x̂): γ(N + 12)·mean|g|·s + mean|g|·e, with s = rstd·(|x| + |mean|), so that
       Σ g·x − mean·Σ g, each scaled by rstd, is below it, too; mean(g): γ(N + 10)·mean|g|.
    3. dX: rstd·(1 + ε) times the errors of its three terms, ε·|dX| for rstd itself, and 6u of the sizes of all terms
       for their products and differences; two more units where the gradient of a residual or what was there is added.
    4. dweight, dbias: `product_error` of M products, in any order of blocks and atomics, and |dy|·e of each row.
    """
    model = arithmetic(parameters, elements["x"])
    unit = model.unit
    one = _parts(parameters, inputs, elements, centred=centred)
    rows, count = one.dy.shape

    def gamma(terms: int) -> float:
        return terms * unit / (1.0 - terms * unit) + oracle_error(terms)

    with np.errstate(over="ignore", invalid="ignore"):
        g = np.abs(one.dy * one.factor)
        sizes = np.maximum(one.size, np.abs(one.normed)) + one.of_normed
        along = np.abs((one.dy * one.factor * one.normed).mean(axis=-1, keepdims=True))
        of_along = (g * one.of_normed + gamma(count + 12) * g * sizes).mean(axis=-1, keepdims=True)
        whole = g.mean(axis=-1, keepdims=True) if centred else np.zeros_like(one.rstd)
        terms = g + whole + sizes * (along + of_along)
        error = 2.0 * unit * g + gamma(count + 10) * whole
        error = error + sizes * of_along + one.of_normed * (along + of_along) + (6.0 * unit + one.of_rstd) * terms
        error = one.rstd * (1.0 + one.of_rstd) * error
        for role in ("dresidual", "dx_held"):
            if role in inputs:
                error = error + 2.0 * unit * (np.abs(inputs[role].astype(np.float64)) + np.abs(expected["dx"]))
        sums = product_error(rows, model, rows // 16 + 2)
        over = np.abs(one.dy)
        errors = {
            "dx": error,
            "dweight": (over * one.of_normed + over * sizes * sums.relative).sum(axis=0) + sums.absolute,
            "dbias": over.sum(axis=0) * sums.relative + sums.absolute,
        }
        for role in _SUMS:
            if f"{role}_held" in inputs:
                held = np.abs(inputs[f"{role}_held"].astype(np.float64))
                errors[role] = errors[role] + (sums.relative + 2.0 * unit) * held
    known = {role: np.where(np.isnan(errors[role]), np.inf, errors[role]) for role in errors if role in expected}
    return judged(known, expected, elements)
