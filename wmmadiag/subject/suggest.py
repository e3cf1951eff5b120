"""The nearest known word, for "did you mean" in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NAMED = 3  # at most, of words that are equally near


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint such as "did you mean 'grid'?", or the list of what is known when nothing is near.

    Words that are equally near are all named: "did you mean 'gemm' or 'gemv'?".
    """
    words = list(dict.fromkeys(known))
    near = difflib.get_close_matches(word, words, n=_NAMED, cutoff=0.6)
    if not near:
        return "known here: " + ", ".join(words)
    # The operands as get_close_matches has them: the ratio is not symmetric.
    ratios = [difflib.SequenceMatcher(None, one, word).ratio() for one in near]
    equal = sorted(f"'{one}'" for one, ratio in zip(near, ratios, strict=True) if ratio == ratios[0])
    return f"did you mean {', '.join(equal[:-1])}{' or ' if equal[1:] else ''}{equal[-1]}?"
