"""Each row of the instruction table has one flow, and what it reads and writes agrees with it."""

import pytest

from wmmadiag.fidelity.written import _choices
from wmmadiag.ptx.instructions import Form, lookup, rows
from wmmadiag.ptx.ir import Access
from wmmadiag.ptx.meaning import FLOWS, Dataflow, meaning


def shortest(form: Form) -> str:
    """The first of the shortest `spellings` of a row, of which there may be hundreds of thousands."""
    opcode, choices = _choices(form)
    return opcode + "".join(min(texts, key=len) for texts in choices)


SHORTEST = sorted({shortest(form) for forms in rows().values() for form in forms if form.opcode != "mma"})
WRITES_NOTHING = {Dataflow.STORE, Dataflow.COPY}
NEEDS_A_RESULT = {
    Dataflow.MOVE,
    Dataflow.COMPUTE,
    Dataflow.COMPARE,
    Dataflow.CONVERT,
    Dataflow.LOAD,
    Dataflow.EXCHANGE,
    Dataflow.MULTIPLY,
}


def test_every_opcode_of_the_table_has_a_flow_and_no_other_has_one() -> None:
    assert {name.split(".")[0] for name in FLOWS} == set(rows())


@pytest.mark.parametrize("text", [one for one in SHORTEST if lookup(one)])
def test_a_flow_agrees_with_what_the_row_reads_and_writes(text: str) -> None:
    does = meaning(text)
    specs = lookup(text)[0].specs
    written = [spec for spec in specs if spec.access is Access.WRITE]
    assert not (does.flow in WRITES_NOTHING and written)
    assert written or does.flow not in NEEDS_A_RESULT
    assert does.flow not in (Dataflow.LOAD, Dataflow.STORE, Dataflow.UPDATE) or any(
        spec.type == "addr" for spec in specs
    )
    assert does.flow is not Dataflow.COMPARE or text.startswith("set.") or written[0].type == "pred"


@pytest.mark.parametrize(
    ("text", "type_", "attributes"),
    [
        ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1}, [%r2];", "f16", {"matrix": "a", "layout": "row"}),
        ("st.shared::cta.v4.b32 [%r1], {%r2};", "b32", {"space": "shared", "vec": "v4"}),
        ("cvt.rn.f16x2.f32 %r1, %f1, %f2;", "f16x2", {"rounding": "rn"}),
        ("setp.lt.and.s32 %p1, %r1, 3, %p2;", "pred", {"compare": "lt"}),
        ("mul.wide.s32 %rd1, %r1, 4;", "s64", {}),
        ("bar.sync 0;", "", {}),
        ("", "", {}),
    ],
)
def test_modifiers_are_read_by_name(text: str, type_: str, attributes: dict[str, str]) -> None:
    does = meaning(text)
    assert does.type == type_
    assert {name: does.attributes[name] for name in attributes} == attributes
