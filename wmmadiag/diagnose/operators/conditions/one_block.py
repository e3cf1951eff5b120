"""What one block or thread of several was meant to do."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.cuda_names import THREAD_VARIABLES
from wmmadiag.diagnose.operators.making import Draft, statement_replaced
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def one_block(program: Program) -> Iterator[Draft]:
    """`if (blockIdx.z == 0) …` for what adds to something, along each axis that the program asks for."""
    members = (one for one in program.all_expressions() if one.kind == "member")
    axes = dict.fromkeys(one.text for one in members if one.operands[0].text in THREAD_VARIABLES)
    for one in program.statements:
        if not _adds(one):
            continue
        for axis in axes:
            text = f"if ({axis} == 0) {one.source}"
            yield statement_replaced(one, text, f"if {axis} == 0", "guard")


def _adds(one: Statement) -> bool:
    whole = one.expression
    if whole is None:
        return False
    return (whole.kind == "assignment" and whole.operator != "=") or (
        whole.kind == "call" and whole.operator.startswith("atomic")
    )
