"""Terms of scores under the name by which `diagnose/` imports them; they are in `wmmadiag.ops.parts.score_terms`."""

from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms

__all__ = ["ScoreTerms", "score_terms"]
