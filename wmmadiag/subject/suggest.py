"""The nearest known word, for "did you mean" in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint such as "did you mean 'grid'?", or the list of what is known when nothing is near."""
    words = list(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else "known here: " + ", ".join(words)
