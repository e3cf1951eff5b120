"""What is left of all, where a piece may be the last one."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.composed import bounds
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.wider.piece_end import pieces

_MOST = 4


@operator
def remaining(program: Program) -> Iterator[Draft]:
    """`min(s, n - x)` for a count `s`, where pieces of `s` begin at an `x`, and for each `n` that something is held
    to."""
    sized = [(name, size.text) for name, sizes in pieces(program).items() for size in sizes]
    pool = pools(program)
    for one in program.expressions:
        around = one.parent
        counts = around is None or around.kind == "call" or around.type.kind == "bool"
        if not one.atom or not one.type.whole or one.varying is not False or one.fixed or not counts:
            continue
        visible = {atom.text for atom in pool.at(one)}
        for name in dict.fromkeys(name for name, size in sized if size == one.text and name in visible):
            given = [bound for bound in bounds(program, one) if bound.text not in (name, one.text)]
            constant = {atom.text for atom in pool.at(one) if atom.constant}
            for bound in [each for each in given if each.text not in constant][:_MOST]:
                left = binary(bound, "-", Text(name))
                yield replaced(one, Text(f"min({one.text}, {left.text})", precedence.POSTFIX), f"at most {left.text}")
