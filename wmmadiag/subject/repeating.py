"""The command that repeats a check or a diagnosis: everything that was asked for and could change what comes out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from wmmadiag.subject.card import Card, Variant


def repeating(
    subcommand: str,
    card: Card,
    variant: Variant,
    *,
    arch: str,
    cases: Sequence[str] | None,
    seed: int | None,
    inputs: str,
    further: Sequence[str] = (),
) -> str:
    """The command line.

    Args:
        subcommand: "check" or "diagnose"; both take the words by which a card was opened.
        cases: names; None for all.
        seed: None leaves it to the card.
        further: words of `options`.
    """
    words = shlex.split(card.command) if card.command else ["wmmadiag", "check", str(card.path)]
    words[1] = subcommand
    words += ["--arch", arch]
    for name in cases or ():
        words += ["--case", name]
    words += ["--variant", variant.name] if len(card.variants) > 1 else []
    words += ["--seed", str(seed)] if seed is not None else []
    words += ["--inputs", inputs] if inputs else []
    return shlex.join([*words, *further])


def options(values: Mapping[str, tuple[object, object]]) -> tuple[str, ...]:
    """Words of those options whose value is not the default: name → (value, default).

    A flag stands alone; a sequence is joined by commas.
    """
    words: list[str] = []
    for name, (value, default) in values.items():
        if value == default:
            continue
        words.append(f"--{name}")
        if value is True:
            continue
        given = value if isinstance(value, str) or not isinstance(value, Sequence) else ",".join(map(str, value))
        words.append(f"{given:g}" if isinstance(given, float) else str(given))
    return tuple(words)
