"""How much is tried of each operation, and what a compiled kernel must show of coarser arithmetic."""

from __future__ import annotations

from itertools import repeat
from types import SimpleNamespace

import pytest

from wmmadiag.subject import alternatives
from wmmadiag.subject.alternatives import ReadingWork, TriedReading, other_work, right_one
from wmmadiag.subject.drafts.accumulators import computes_in
from wmmadiag.subject.settling import _unsettled


@pytest.mark.parametrize(("speaking", "before", "found"), [(0, 200, True), (2, 200, False), (0, 5000, False)])
def test_however_many_operations_there_are_each_is_tried_as_far(monkeypatch, speaking, before, found):
    right = object()
    monkeypatch.setattr(alternatives, "tried_in", lambda _, card: card)
    monkeypatch.setattr(alternatives, "_right_reading", lambda name, card, *_: (name, card) if card is right else None)
    endless = [(repeat(("endless", None)), other_work(0)) for _ in range(40)]
    own = iter([*[("own", None)] * before, ("own", right)])
    tries = [(repeat(("first", None)), ReadingWork()), *endless, (own, other_work(speaking))]
    assert right_one(tries) == (("own", right) if found else None)


def test_what_would_cost_more_than_is_left_is_not_begun(monkeypatch):
    ran = []
    usual = SimpleNamespace(name="small", elements=1000)
    huge = SimpleNamespace(name="tiles", elements=10**9)  # an extent in another's place
    monkeypatch.setattr(alternatives, "elements", lambda _: lambda case: case.elements)
    monkeypatch.setattr(alternatives, "bind", lambda _, case, __: SimpleNamespace(case=case, launch=None))
    launched = SimpleNamespace(launch=lambda *_: ran.append(1) or SimpleNamespace(warp_instructions=1))
    session = SimpleNamespace(runs=launched, kernel=lambda *_: SimpleNamespace(kernel=None))
    work = ReadingWork()
    found = alternatives._ran(session, SimpleNamespace(variants=[None], cases=(huge, usual)), work)
    assert found is not None and found.case is usual and ran == [1]
    assert not work.over


def test_a_kernel_is_wrong_by_what_its_user_says_only_where_all_readings_were_tried(monkeypatch):
    draft = SimpleNamespace(unstated={}, switched=[])
    card = SimpleNamespace(
        derivation=SimpleNamespace(stated={"operation"}, near="", draft=draft, doubt="", kernel=None)
    )
    monkeypatch.setattr("wmmadiag.subject.settling._is_launch_known", lambda _: True)
    monkeypatch.setattr("wmmadiag.subject.settling.set_by_the_host", lambda _: ())
    monkeypatch.setattr("wmmadiag.subject.settling._question", lambda *_: "which?")
    monkeypatch.setattr("wmmadiag.subject.settling.replace", lambda report, **new: new)
    report = SimpleNamespace(assumed=(), cases=())
    assert _unsettled(card, report, TriedReading(ran=True)) != {"cases": ()}
    assert _unsettled(card, report, TriedReading(ran=True, cut=True)) == {"cases": ()}


EXPONENTIAL = "ex2.approx.ftz.f32 %f2, %f1;\nselp.f32 %f3, %f2, %f9, %p1;\ncvt.rn.f16.f32 %rs1, %f3;\n"
PRODUCT = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f7}, {%r1}, {%r2}, {%f7};\n"


@pytest.mark.parametrize(
    ("body", "parameter", "shown"),
    [
        (EXPONENTIAL, "exp_dtype", True),
        ("ex2.approx.f16 %rs2, %rs1;\n", "exp_dtype", True),
        (EXPONENTIAL + "add.f32 %f4, %f4, %f3;\n", "exp_dtype", False),  # rounded for the product alone
        ("cvt.rn.f16.f32 %rs1, %f8;\nex2.approx.ftz.f32 %f2, %f1;\n", "exp_dtype", False),  # the result
        ("cvt.rn.f16.f32 %rs1, %f8;\n" + PRODUCT, "scaled_q_dtype", True),
        (PRODUCT + EXPONENTIAL, "scaled_q_dtype", False),
        (PRODUCT + "cvt.rn.f16.f32 %rs1, %f7;\n" + EXPONENTIAL, "score_dtype", True),
        (PRODUCT + EXPONENTIAL, "score_dtype", False),
    ],
)
def test_coarser_arithmetic_is_shown_where_it_would_be(body, parameter, shown):
    ptx = f".visible .entry k(\n)\n{{\n{body}}}\n"
    compilation = SimpleNamespace(ptx=ptx, entry=lambda name: SimpleNamespace(name=name))
    assert computes_in(compilation, "k", {parameter: "f16"}) == shown
