"""Where a NaN or an infinity was made that an output holds.

Found are instructions that make one of operands that are none: a conversion to half that overflows, a product beyond
the range, 0/0, infinity minus infinity (rows that are masked altogether). Those that only pass one on are not; nor is
one that no output holds: a mask of -infinity whose exponential is 0 is how softmax works.

Found, too, are accumulators in half whose sums come near the end of its range, or are so large that additions are lost.

Bad:
    p[i] = __float2half(expf(s[i]));              // e^12 is more than half can hold: infinity
    o[i] = __hdiv(p[i], sum);                     // infinity / infinity: NaN

Good:
    p[i] = __float2half(expf(s[i] - row_max));
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import thread_name, user_line
from wmmadiag.checks.registry import Check, Context, Raw

_WORDS = {
    "nan": "makes a NaN of operands that are none",
    "infinity": "makes an infinity of finite operands",
    "overflow": "overflows to infinity",
}
_HINTS = {
    "nan": "look for 0/0, infinity minus infinity (a row that is masked altogether) or a root of a negative number",
    "infinity": "look for a division by zero, or for an exponential whose maximum was not subtracted",
    "overflow": "subtract the maximum or scale before the conversion; accumulate in float",
}
_GROWTH = {
    "near-overflow": (Level.WARNING, "sums of an accumulator in half reach half of its range (32,768 of 65,504)"),
    "absorbed": (
        Level.ADVICE,
        "additions to large sums of an accumulator in half change nothing: they are rounded away",
    ),
}
_EXPONENTS = {"f16": (np.uint16, 0x7C00, 0x03FF), "f32": (np.uint32, 0x7F800000, 0x007FFFFF)}
_EXPONENTS |= {"bf16": (np.uint16, 0x7F80, 0x007F), "f64": (np.uint64, 0x7FF << 52, (1 << 52) - 1)}


def outputs_with(context: Context) -> tuple[set[str], set[str]]:
    """Names of the writeable arrays that hold a NaN, and an infinity, that arithmetic made.

    Arithmetic makes the canonical NaN (all bits of the fraction set, and no sign); memory that nothing wrote holds
    others.
    """
    nans, infinities = set(), set()
    for index, argument in enumerate(context.launch.arguments):
        if not isinstance(argument, np.ndarray) or not argument.flags.writeable:
            continue
        name = context.launch.names[index] if index < len(context.launch.names) else f"argument {index}"
        for kind in _formats(argument):
            word, exponent, fraction = _EXPONENTS[kind]
            bits = argument.reshape(-1).view(word)
            if np.any(bits == word(exponent | fraction)):
                nans.add(name)
            if np.any((bits & word(exponent | fraction)) == word(exponent)):
                infinities.add(name)
    return nans, infinities


def _formats(array: NDArray[Any]) -> tuple[str, ...]:
    """The float formats that an array's elements may have; of raw 16-bit words nobody knows which."""
    name = array.dtype.name
    return {"float16": ("f16",), "float32": ("f32",), "float64": ("f64",), "bfloat16": ("bf16",)}.get(name, ())


_seen: tuple[Context | None, tuple[set[str], set[str]]] = (None, (set(), set()))


def _outputs(context: Context) -> tuple[set[str], set[str]]:
    global _seen
    if _seen[0] is not context:
        _seen = (context, outputs_with(context))
    return _seen[1]


def describe(raw: Raw, context: Context) -> Finding | None:
    """A finding when an output holds what this instruction may have made."""
    kind = str(raw["kind"])
    if kind in _GROWTH:
        return _growth(raw, context)
    nans, infinities = _outputs(context)
    held = nans | infinities if kind != "nan" else nans
    if not held:
        return None
    where = user_line(context, raw["pc"])
    node = context.kernel.nodes[raw["pc"]]
    holds = " and ".join(filter(None, [_holds(nans, "NaN"), _holds(infinities, "infinity")]))
    return Finding(
        check="numbers",
        kind=kind,
        level=Level.WARNING,
        message=f"line {where.line} {_WORDS[kind]}",
        place=where,
        count=int(raw["count"]),
        detail=(
            f"first: {thread_name(context, raw['block'], raw['warp'], raw['lane'])}, {node.text}",
            f"at the end of the run {holds}",
        ),
        hint=_HINTS[kind],
    )


def _growth(raw: Raw, context: Context) -> Finding:
    kind, where = str(raw["kind"]), user_line(context, raw["pc"])
    level, words = _GROWTH[kind]
    return Finding(
        check="numbers",
        kind=kind,
        level=level,
        message=words,
        place=where,
        count=int(raw["count"]),
        detail=(f"first: {thread_name(context, raw['block'], raw['warp'])}, {context.kernel.nodes[raw['pc']].text}",),
        hint="accumulate in float",
    )


def _holds(names: set[str], what: str) -> str:
    return f"{', '.join(sorted(names))} hold{'s' * (len(names) == 1)} {what}" if names else ""


CHECK = Check(
    name="numbers",
    summary="where a NaN or an infinity was made that an output holds, and sums in half that grow too large",
    levels={
        Level.WARNING: "an output holds a NaN or an infinity (whether it should is for the reference); sums in "
        "half reach half of its range",
        Level.ADVICE: "additions to sums in half change nothing",
    },
    cost="low",
    default=True,
    native=("numbers",),
    describe=describe,
)
