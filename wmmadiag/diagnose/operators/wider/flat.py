"""The index of a matrix that lies the other way round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, text_of, wrapped
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST = 3


@operator
def flat_transposed(program: Program) -> Iterator[Draft]:
    """`x[i % n * m + i / n]` for `x[i]`, with numbers or names `n` and `m` by which the source splits an `i` into rows
    and columns."""
    known: dict[str, dict[str, None]] = defaultdict(dict)
    for one in program.all_expressions():
        if one.kind == "binary" and one.operator in ("/", "%") and one.operands[0].kind == "name":
            divisor = one.operands[1]
            if divisor.atom and divisor.varying is False:
                known[one.operands[0].text][divisor.text] = None
    for one in program.expressions:
        if one.role != "index" or one.kind != "name" or one.text not in known or not one.type.whole:
            continue
        index = wrapped(text_of(one), precedence.UNARY)
        divisors = list(known[one.text])[:_MOST]
        for n in divisors:
            for m in divisors:
                text = f"{index} % {n} * {m} + {index} / {n}"
                yield replaced(one, Text(text, precedence.BINARY["+"], "+"), f"{one.text} by columns of {n}")
