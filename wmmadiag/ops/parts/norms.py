"""What LayerNorm and RMSNorm have in common: tensors, parameters, and how far roundings move their statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.model import Arrays, Choice, Elements, HardInput, Judged, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, Judgement, arithmetic, judged, oracle_error, output_rounding
from wmmadiag.ops.parts.settings import NARROW, by_flag, kept_in, narrow_type
from wmmadiag.ops.parts.traits import TENSOR_CORES

_ADDED = ("x", "residual", "added")

ROLES: Mapping[str, Role] = {
    "x": Role("MN", spellings="x in input inp src hidden hiddenstates"),
    "residual": Role("MN", required=False, spellings="residual res resid residualin skip"),
    "added": Role("N", required=False, spellings="inputbias xbias linearbias projbias"),
    "weight": Role("N", required=False, spellings="weight weights w gamma scale g"),
}
OUTPUTS: Mapping[str, Role] = {
    "y": Role("MN", output=True, updates="x", spellings="y out output dst o result"),
    "residual_out": Role(
        "MN", output=True, required=False, updates="residual", spellings="residualout resout newresidual prenorm"
    ),
}
SCALE = Role(
    "M",
    output=True,
    required=False,
    element="float",
    spellings="scales tokenscale rowscale tokenscales rowscales outscale",
)
RSTD = Role("M", output=True, required=False, spellings="rstd invstd invvar rsigma invrms rrms")
TYPES_OF_STEPS: Mapping[str, Parameter] = {
    "sum_dtype": narrow_type("type that x + residual is rounded to before it is normalised"),
    "normalized_dtype": narrow_type("type that normalised values are rounded to before the weight"),
}
LEVELS = Parameter(
    "cap",
    "0",
    "0, or the largest whole number: Y is then divided by `scale`, max|Y[m]| over it, and rounded",
    spellings="levels qmax",
    by_element=("y", {"s8": "127"}),
)

VARIANCE = Parameter(
    "word", "any", "how it is computed; any: also as E[x²] − E[x]², which is less exact", ("any", "two-pass")
)
NUMBERS: Mapping[str, Parameter] = {
    "gain": Parameter("real", "1", "one number for all weights", spellings="g gain gamma weight", drafted=("1", "2")),
    "shift": Parameter("real", "0", "one number for all biases", spellings="b shift beta bias", drafted=("0", "0.5")),
}
"""For kernels that take a number where others take an array."""
NORMALISED_KEPT = kept_in("x", "normalised values", "normalized_dtype", *NARROW)
CHOICES: tuple[Choice, ...] = (NORMALISED_KEPT, kept_in("x", "sums with the residual", "sum_dtype", *NARROW))


def _added(exponent: int) -> str:
    """The pattern of a power of ten that code adds before a root, or names so."""
    number = rf"(?:1(?:\.0*)?e-0*{exponent}|0?\.0{{{exponent - 1}}}10*)f?(?![\w.])"
    under_root = rf"sqrt\w*\s*\([^;]*\+\s*{number}|\+=?\s*{number}\s*;[^;{{}}]*sqrt"
    return rf"{under_root}|eps\w*(?:\s*[={{(]|\s)\s*{number}"


_EPS: Mapping[str, str] = {f"1e-{exponent}": _added(exponent) for exponent in range(3, 13)}


def eps(usual: str, meaning: str) -> Parameter:
    """What is added to the variance, or to the mean square."""
    spellings = "eps epsilon layernormeps rmsnormeps rmseps lneps normeps varianceepsilon"
    return Parameter("cap", usual, meaning, spellings=spellings, formulas=_EPS, drafted=(usual, "0.25"))


def signs(names: str) -> Signs:
    """What tells a norm, of these names."""
    told = "its source does not tell eps and where values are rounded"
    return Signs(names, parts=("quantize",), excludes=(TENSOR_CORES,), open=told)


def column_factor(role: str, itself: str, one_more: str) -> Choice:
    """Whether columns are multiplied by a weight, or by 1 and that."""
    return by_flag("What is the factor of a column?", "unit_offset", itself, one_more, role)


def _large_mean(values: dict[str, Doubles], rng: np.random.Generator) -> None:
    if "x" in values:
        values["x"] += rng.choice([-30.0, 30.0], (*values["x"].shape[:-1], 1))


def _outlier(values: dict[str, Doubles], rng: np.random.Generator) -> None:
    if "x" in values:
        columns = rng.integers(0, values["x"].shape[-1], values["x"].shape[:-1])
        np.put_along_axis(values["x"], columns[..., None], 200.0, axis=-1)


def _tiny(values: dict[str, Doubles], rng: np.random.Generator) -> None:
    for role in {"x", "residual"} & set(values):
        values[role] *= rng.choice([1e-3, 4e-3], (*values[role].shape[:-1], 1))


_OF = (frozenset({"x"}),)

HARD_INPUTS: Mapping[str, HardInput] = {
    "large_mean": HardInput(
        "rows whose mean is 30 times their deviation: what E[x²] − E[x]² loses shows", _large_mean, _OF
    ),
    "outlier": HardInput("one element of each row is 200 times as large as the others", _outlier, _OF),
    "tiny_rows": HardInput("rows whose variance is about eps, so that it shows where that is added", _tiny, _OF),
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Rows as they are normalised: (s − mean)·rstd, with bounds of what rounding does to each part."""

    rows: Doubles  # s = x + residual, (…, N). error: of each, absolute; 0 without a residual.
    error: Doubles
    mean: Doubles  # (…, 1); 0 where none is subtracted. mean_error: absolute.
    mean_error: Doubles
    rstd: Doubles  # (…, 1). rstd_error: relative.
    rstd_error: Doubles
    centred: bool  # whether a mean is subtracted


def summed(inputs: Arrays) -> Doubles:
    """X + residual + added in float64."""
    return np.asarray(sum(inputs[role].astype(np.float64) for role in _ADDED if role in inputs))


def statistics(parameters: Values, inputs: Arrays, elements: Elements, *, centred: bool) -> Statistics:
    """Means and reciprocal deviations of rows, and how far roundings in any order of summation may move them.

    Let u be the unit of scalar work, n the row's length and γ(k) = k·u/(1 − k·u) (Higham, Accuracy and Stability of
    Numerical Algorithms, 2nd ed., lemma 3.1). A sum of n terms over lanes and warps and its division by n cost at most
    γ(n + 10) of the sum of magnitudes.

    - s = x + residual, or of three terms: u of the sizes of all for each sum, and the unit of `sum_dtype`: e_i.
    - mean: δ = γ(n + 10)·mean|s| + mean e.
    - Two passes, mean (s − m̂)²: a common shift of all rows' elements by δ adds δ² and nothing in first order; each
      difference has f_i = e_i + u·(|d_i| + e_i + δ) of its own, so 2·mean (|d| + δ)·f + mean f² + γ(n + 11)·mean
      (|d| + δ + f)². (RMSNorm: d = s, δ = 0, f = e.)
    - One pass, mean s² − m̂², unless `variance` excludes it: 2·mean |s|e + mean e² + γ(n + 11)·mean (|s| + e)² +
      2|m|δ + δ² + 2u·(mean s² + m²). Welford's and Chan's updates stay below that.
    - rstd = (variance + eps)^(−1/2): with ρ the variance's error relative to variance + eps, and 2u for eps and the
      sum, (1 − ρ)^(−1/2) − 1, or anything from ρ = 1 on; then 8u for `rsqrt.approx` (2⁻²²·⁹ relative), or a square root
      and a quotient of 2 ulp each (CUDA C++ Programming Guide, "Mathematical Functions").
    """
    unit = arithmetic(parameters, elements["x"]).unit
    rows = summed(inputs)
    count = rows.shape[-1]
    narrow = str(parameters.get("sum_dtype", "auto"))
    added = [np.abs(inputs[role].astype(np.float64)) for role in _ADDED if role in inputs]
    error = np.zeros_like(rows)
    if len(added) > 1:
        error = np.abs(rows) * (unit + (0.0 if narrow == "auto" else TYPES[narrow].unit))
        error = error + unit * (len(added) - 2) * sum(added)

    def average(values: Doubles) -> Doubles:
        return np.asarray(values.mean(axis=-1, keepdims=True))

    def gamma(terms: int) -> float:
        return terms * unit / (1.0 - terms * unit) + oracle_error(terms)

    size = np.abs(rows)
    mean = average(rows) if centred else np.zeros((*rows.shape[:-1], 1))
    shift = gamma(count + 10) * average(size) + average(error) if centred else np.zeros_like(mean)
    apart = np.abs(rows - mean)
    variance = average(apart**2)
    own = error + unit * (apart + error + shift) if centred else error
    moved = shift**2 + average(2.0 * (apart + shift) * own + own**2)
    moved = moved + gamma(count + 11) * average((apart + shift + own) ** 2)
    if centred and parameters["variance"] == "any":
        one_pass = average(2.0 * size * error + error**2) + gamma(count + 11) * average((size + error) ** 2)
        one_pass += 2.0 * np.abs(mean) * shift + shift**2 + 2.0 * unit * (average(size**2) + mean**2)
        moved = np.maximum(moved, one_pass)
    total = variance + float(parameters["eps"])
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(total > 0, moved / total, np.inf) + 2.0 * unit
        rstd_error = np.where(relative < 1.0, (1.0 - np.minimum(relative, 0.999999999)) ** -0.5 - 1.0, np.inf)
        rstd = 1.0 / np.sqrt(total)
    return Statistics(rows, error, mean, shift, rstd, rstd_error * (1.0 + 8.0 * unit) + 8.0 * unit, centred)


def normalised_bound(
    parameters: Values, inputs: Arrays, expected: Doubles, elements: Elements, found: Statistics
) -> Judgement:
    """Bound of (s − mean)·rstd·weight + bias: `normalised_error`, then the output's rounding."""
    unit = arithmetic(parameters, elements["x"]).unit
    error = normalised_error(parameters, inputs, found, unit)
    error = error + unit * np.abs(expected) * (float(parameters.get("gain", 1.0)) != 1.0)
    return Judgement(output_rounding(error, expected, elements["y"]))


def quantised(parameters: Values, y: Doubles) -> Outputs:
    """Rows as whole numbers before they are rounded, with the scale of each; rows as they are where `levels` is 0."""
    levels = float(parameters["levels"])
    if not levels:
        return {"y": y}
    scale = np.abs(y).max(axis=-1) / levels
    with np.errstate(divide="ignore", invalid="ignore"):
        return {"y": np.where(scale[..., None] > 0, y / scale[..., None], 0.0), "scale": scale}


def rows_bounds(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements, found: Statistics) -> Judged:
    """Bounds of Y, and of its scales where it is quantised.

    With e the error of a value before it is divided by the scale s, that of a scale is max e / levels + 4u·s, δ of it
    relative. A whole number is then half a level off, and by e/s + |y|·(δ + 8u).
    """
    if "scale" not in expected:
        return {"y": normalised_bound(parameters, inputs, expected["y"], elements, found)}
    unit = arithmetic(parameters, elements["x"]).unit
    scale = expected["scale"][..., None]
    error = normalised_error(parameters, inputs, found, unit)
    error = error + unit * np.abs(expected["y"]) * scale * (float(parameters.get("gain", 1.0)) != 1.0)
    moved = error.max(axis=-1, keepdims=True) / float(parameters["levels"]) + 4.0 * unit * scale
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(scale > 0, 0.5 + error / scale + np.abs(expected["y"]) * (moved / scale + 8.0 * unit), np.inf)
    return {"y": Judgement(off), **judged({"scale": moved[..., 0]}, expected, elements)}


def normalised_error(parameters: Values, inputs: Arrays, found: Statistics, unit: float) -> Doubles:
    """How far (s − mean)·rstd·weight + bias may be off before its output is rounded. `unit`: of scalar work.

    With d = s − mean off by f = e + δ + u·(|d| + e + δ) and rstd by ε relative: rstd·(f·(1 + ε) + |d|·ε). The fused
    form s·(rstd·w) + (b − mean·rstd·w) rounds larger terms: 4u·|w|·rstd·(|s| + |mean|), which also covers the three
    products of the plain form; a bias 3u·|b|, and so does one number for all of them; one number for all weights is one
    rounding more. Normalised values that are rounded to a narrow type cost twice its unit, since their product with
    the weight is then rounded to it, too. All second-order terms together are below a thousandth.
    """
    weight = np.abs(inputs["weight"].astype(np.float64)) if "weight" in inputs else np.float64(1.0)
    if parameters.get("unit_offset") and "weight" in inputs:
        weight = np.abs(1.0 + inputs["weight"].astype(np.float64))
    apart = np.abs(found.rows - found.mean)
    off = found.error + found.mean_error
    if found.centred:
        off = off + unit * (apart + off)
    with np.errstate(invalid="ignore", over="ignore"):
        error = found.rstd * (off * (1.0 + found.rstd_error) + apart * found.rstd_error)
        error = error + 4.0 * unit * found.rstd * (np.abs(found.rows) + np.abs(found.mean))
        narrow = str(parameters["normalized_dtype"])
        if narrow != "auto":
            kind = TYPES[narrow]
            error = error + 2.0 * (kind.unit * (apart * found.rstd + error) + kind.half_subnormal)
        error = error * weight * abs(float(parameters.get("gain", 1.0)))
        if "bias" in inputs:
            error = error + 3.0 * unit * np.abs(inputs["bias"].astype(np.float64))
        error = error + 3.0 * unit * abs(float(parameters.get("shift", 0.0)))
        return np.where(np.isnan(error), np.inf, error * 1.001)


def statistics_bounds(expected: Outputs, elements: Elements, found: Statistics) -> Judged:
    """Bounds of the outputs beside y: what was normalised, the means, the reciprocal deviations."""
    errors = {
        "residual_out": found.error,
        "mean": found.mean_error[..., 0],
        "rstd": (found.rstd * found.rstd_error)[..., 0],
    }
    return judged({role: errors[role] for role in errors if role in expected}, expected, elements)
