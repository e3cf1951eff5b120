"""What softcap, bias and ALiBi add to the bound of a score."""

from __future__ import annotations

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Arithmetic, Doubles, Parameters
from wmmadiag.ops.parts.score_terms import ScoreTerms
from wmmadiag.ops.parts.scores import ScoreRows


def terms_error(
    part: ScoreRows, terms: ScoreTerms, parameters: Parameters, model: Arithmetic, relative_sum: float
) -> Doubles:
    """Absolute error of each score beyond that of Q·Kᵀ itself, (rows, keys); 0 where it is masked.

    Let x be the scaled product, y = c·tanh(x/c) (x without a softcap), s = y + b - a the score with bias b and ALiBi's
    a, and u the unit of scalar work. y moves by no more than x does, as the slope of c·tanh(x/c) is at most 1.

    - The factor and its product: 3u|x|; the quotient x/c: 2u|x|.
    - tanh: 2 ulp, at most 4u relative; as 1 - 2/(exp(2z) + 1) its exponential, of relative error 4u + 3u|2z|, moves it
      by 2u + 3u·max 4z·e²ᶻ/(1 + e²ᶻ)² < 4u absolutely, its sums and quotient by 4u: 8u·c in all. tanh.approx has 2⁻¹¹
      relative (PTX ISA), half-precision tanh 2⁻¹⁰·⁹⁸⁷: with `tanh_dtype` f16 2⁻¹⁰, bf16 2⁻⁷.
    - The products with c and log2(e): 3u|y|.
    - A bias is converted, may be multiplied by log2(e), and added, or be the accumulator's start value divided by the
      scale: (6u + the relative error of the sum)·|b|. A slope is multiplied by a distance: 6u|a|. `ScoreTerms.added` is
      their sum, with the largest distance that ALiBi may be counted from.
    - Each of two sums: u(|y| + |b| + |a|), counted in the terms above but for 2u|y|.
    - A narrow type of scores rounds x, y and s, and what is added.
    """
    assert part.scaled is not None
    unit = model.unit
    head, rows = part.head, np.arange(part.rows.start, part.rows.stop)
    product = np.abs(part.scaled)
    capped = np.abs(terms.capped(part.scaled))
    added = terms.added(head, rows)
    with np.errstate(invalid="ignore", over="ignore"):
        error = 5.0 * unit * product + 5.0 * unit * capped + (8.0 * unit + relative_sum) * added
        if terms.softcap:
            kind = str(parameters.get("tanh_dtype", "f32"))
            tanh = 4.0 * unit if kind == "f32" else 2.0 * TYPES[kind].unit
            error += tanh * capped + 8.0 * unit * abs(terms.softcap)
        if model.score_type is not None:
            error += 2.0 * model.score_type.unit * (product + capped + added) + 8.0 * model.score_type.half_subnormal
    return np.where(np.isfinite(part.scores), error, 0.0)
