"""What the Python API shows of a stopped launch, against values computed another way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from debugged import ATTENTION, KERNELS, line_of, small

import wmmadiag
from wmmadiag.debugger import Session
from wmmadiag.debugger.machine import StoppableLaunch
from wmmadiag.errors import ConfigurationError


@pytest.fixture
def attention() -> Session:
    return wmmadiag.debug(ATTENTION, case="two_heads")


def test_a_fragment_holds_what_was_loaded(attention: Session) -> None:
    line = line_of(attention, "wmma::mma_sync(s, q_fragment[kk], kt, s)")
    moment = attention.run_to(line=line)
    assert (moment.reason, moment.line) == ("instruction", line)
    q, k = (attention.case.inputs()[role][0, 0].astype(np.float64) for role in "qk")
    column = 32 * (attention.warp % 2)
    rows = 16 * (attention.warp // 2)
    assert (attention.fragment("q_fragment").values == q[rows : rows + 16, :16]).all()
    kt = attention.fragment("kt")
    assert (kt.values == k[column : column + 16, :16].T).all()
    assert kt.provenance[3, 5] == f"K[0,0]({column + 5}, 3)"
    assert (kt.difference == 0).all()
    accumulator = attention.fragment("s")
    assert accumulator.state == "before" and (accumulator.values == 0).all()


def test_the_accumulator_before_and_after(attention: Session) -> None:
    attention.run_to(tensor_op=1)
    time = attention.time
    found = attention.multiplication()
    assert attention.time == time
    wanted = found["a"].values.astype(np.float64) @ found["b"].values.astype(np.float64) + found["c"].values
    assert np.allclose(found["d"].values, wanted, atol=1e-4)
    assert "k < 16" in found["d"].reading
    assert np.nanmax(np.abs(found["d"].difference)) < 1e-4


def test_fragments_have_an_origin_to_the_end(attention: Session) -> None:
    attention.run_to(end=True)
    kt = attention.fragment("kt", warp=1)
    assert kt.state == "after" and kt.provenance[0, 0].startswith("K[0,1](")
    assert attention.finished and attention.moment.reason == "finished"


def test_lanes_and_registers_hold_the_elements(attention: Session) -> None:
    attention.run_to(tensor_op=1)
    a = attention.fragment("a")
    lane, index, name = a.lanes[9, 5], a.index[9, 5], a.registers[9, 5]
    packed = attention.registers(name)[name].values.view(np.float16).reshape(32, 2)
    assert packed[lane, index % 2] == a.values[9, 5]


def test_shared_memory_has_its_declared_shape() -> None:
    session = wmmadiag.debug(KERNELS / "attention" / "wrong" / "pv_overwritten.toml", case="two_heads")
    session.run_to(line=line_of(session, "wmma::mma_sync", 0))
    tile = session.shared("sK")
    assert tile.shape == (64, 72) and tile.dtype == np.float16
    assert (tile[:, :64] == session.case.inputs()["k"][0, 0]).all()
    assert session.shared("sK[3][5]") == tile[3, 5]
    assert session.shared("sK[3,5]") == tile[3, 5]
    writer = session.last_writer("sK[3][5]")
    assert writer is not None and "sK[j][d]" in writer.code
    assert session.last_writer("sO[0][0]") is not None
    assert session.last_writer("sP[0][0]") is None


def test_a_step_back_undoes_a_step(attention: Session) -> None:
    attention.run_to(tensor_op=7)
    times = [attention.time]
    for _ in range(4):
        times.append(attention.step("instruction").time)
    assert times == sorted(set(times))
    for time in reversed(times[:-1]):
        assert attention.reverse_step("instruction").time == time
    line = attention.moment.line
    attention.step("line", 3)
    for _ in range(8):
        if attention.reverse_step("line").line == line:
            break
    assert attention.moment.line == line


def test_steps_by_tensor_operation_and_barrier(attention: Session) -> None:
    first = attention.run_to(tensor_op=1)
    warp = attention.warp
    second = attention.step("tensor")
    assert second.warp == warp and second.time > first.time
    assert attention.reverse_step("tensor").time == first.time
    moment = attention.step("barrier")
    assert "__syncthreads" in moment.code and moment.warp == warp


def test_a_watched_element_and_who_wrote_it(attention: Session) -> None:
    moment = attention.run_to(watch="o[0,1,17,3]")
    assert moment.reason == "watch" and "o[0,1,17,3]" in moment.words
    assert not np.isnan(attention.values("o[0,1,17,3]"))
    writer = attention.last_writer("o[0,1,17,3]")
    assert writer is not None and writer.time == moment.time - 1 and writer.warp == moment.warp
    assert attention.run_to(end=True).reason == "finished"
    assert attention.last_writer("o[0,1,17,3]") == writer


def test_blocks_warps_and_lanes(attention: Session) -> None:
    moment = attention.select(block=(1, 1, 0), warp=3, lane=7)
    assert (attention.coordinates(), moment.warp, moment.lane) == ((1, 1, 0), 3, 7)
    assert attention.variable("blockIdx.y") == 1
    assert attention.variable("threadIdx.x") == 3 * 32 + 7
    attention.select(block=0)
    assert attention.time == 0
    with pytest.raises(ConfigurationError, match="no block"):
        attention.select(block=(7, 0, 0))
    with pytest.raises(ConfigurationError, match="no warp 9"):
        attention.select(warp=9)


def test_variables_are_found_or_refused(attention: Session) -> None:
    assert attention.variable("seq_len") == 64
    assert attention.variable("scale") == pytest.approx(0.125)
    with pytest.raises(ConfigurationError, match="nothing tells where it is") as refused:
        attention.variable("first_query")
    assert "keep" in refused.value.hint
    with pytest.raises(ConfigurationError, match="no variable 'sKW'") as refused:
        attention.variable("sKW")
    assert "sKV" in refused.value.hint


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.run_to(line=3), "no instruction belongs to line 3"),
        (lambda s: s.run_to(line="nosuch.cu:3"), "no code of this kernel comes from"),
        (lambda s: s.run_to(line="x"), "is no line"),
        (lambda s: s.run_to(function="load_row"), "no code of a function"),
        (lambda s: s.run_to(watch="sKV[99999]"), "has shape"),
        (lambda s: s.run_to(watch="sKV["), "not an array's element"),
        (lambda s: s.run_to(watch="sKV[i]"), "indices are numbers"),
        (lambda s: s.run_to(finding="rases"), "no check 'rases'"),
        (lambda s: s.run_to(finding="races"), "finds nothing"),
        (lambda s: s.run_to(departure=True), "does not depart"),
        (lambda s: s.run_to(line=100, nan=True), "one thing at a time"),
        (lambda s: s.run_to(tensor_op=0), "tensor_op=0"),
        (lambda s: s.step("words"), "cannot step by"),
        (lambda s: s.step("line", 0), "0 steps"),
        (lambda s: s.seek(-1), "before the launch"),
        (lambda s: s.fragment("nosuch"), "no fragment 'nosuch'"),
        (lambda s: s.fragment("acc"), "has not touched 'acc' yet"),
        (lambda s: s.registers("%q"), "no register %q"),
        (lambda s: s.explain("q"), "not one element"),
        (lambda s: s.to_difference(), "nothing to compare with"),
    ],
)
def test_what_cannot_be_is_refused_by_name(attention: Session, call: object, message: str) -> None:
    moment = attention.run_to(tensor_op=1)
    with pytest.raises(ConfigurationError, match=message):
        call(attention)  # type: ignore[operator]
    assert attention.moment is moment and attention.time == moment.time
    assert attention.step("instruction").reason == "step"


def test_who_waits_at_a_barrier(attention: Session) -> None:
    attention.run_to(line=line_of(attention, "__syncthreads", 1), warp=2)
    waiting = [one for one in attention.barriers() if one.waits]
    assert {one.warp for one in waiting} == {0, 1, 3} and {one.waits for one in waiting} == {"barrier 0"}


def test_a_nan_is_found_where_it_is_made(tmp_path: Path) -> None:
    session = small(
        tmp_path,
        'extern "C" __global__ void small(const float* x, float* out, int n) {\n'
        "    float v = x[threadIdx.x];\n"
        "    float w = threadIdx.x == 37 ? v - v : 1.0f;\n"
        "    out[threadIdx.x] = (threadIdx.x == 37 ? 0.0f : v) / w;\n"
        "}\n",
    )
    moment = session.run_to(nan=True)
    assert (moment.reason, moment.line, moment.warp, moment.lane) == ("nan", 4, 1, 5)


def test_a_deadlock_is_shown(tmp_path: Path) -> None:
    session = small(
        tmp_path,
        'extern "C" __global__ void small(const float* x, float* out, int n) {\n'
        '    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");\n'
        '    else asm volatile("bar.sync 2, 64;");\n'
        "    out[threadIdx.x] = x[threadIdx.x];\n"
        "}\n",
    )
    moment = session.run_to()
    assert moment.reason == "fault" and "deadlock" in moment.words
    assert {one.waits for one in session.barriers()} == {"barrier 1", "barrier 2"}
    assert session.reverse_step("instruction").reason == "step"


def test_two_variants_agree_and_a_record_differs(attention: Session, tmp_path: Path) -> None:
    session = wmmadiag.debug(ATTENTION, case="two_heads", against="scalar")
    with pytest.raises(ConfigurationError, match="no output differs"):
        session.to_difference()
    session.run_to(end=True)
    recorded = session.case.outputs()["o"].copy()
    recorded[0, 1, 40, 9] += 1
    np.savez(tmp_path / "gpu.npz", o=recorded)
    other = wmmadiag.debug(ATTENTION, case="two_heads", against=tmp_path / "gpu.npz")
    found = other.to_difference()
    assert found.kind == "value" and "o[0,1,40,9]" in found.words
    assert "o_row" in found.moment.code
    with pytest.raises(ConfigurationError, match="is no variant"):
        wmmadiag.debug(ATTENTION, against="scaler")


def test_the_first_tile_that_differs() -> None:
    wrong = KERNELS / "attention" / "wrong"
    session = wmmadiag.debug(wrong / "qk_not_transposed.toml", case="two_heads", against=wrong / "pv_overwritten.toml")
    found = session.to_difference()
    assert found.kind == "tile" and "mma_sync" in found.moment.code
    assert found.mine is not None and found.theirs is not None and (found.mine.values != found.theirs.values).any()


@pytest.mark.slow
def test_the_cause_and_the_lines_behind() -> None:
    session = wmmadiag.debug(KERNELS / "gemm" / "wrong" / "no_zero_fill.toml")
    declared, added = line_of(session, "wmma::accumulator"), line_of(session, "mma_sync(")
    found = session.to_cause("quick")
    assert declared <= found.line <= added and found.cause.sentence
    departure = session.to_departure()
    assert departure.line == added and str(departure).count(departure.words) == 1
    assert declared in {one.line for one in session.behind(1)}
    with pytest.raises(ConfigurationError, match="is right"):
        wmmadiag.debug(KERNELS / "gemm" / "kernel.toml").to_cause("quick")


@pytest.mark.parametrize("go", [lambda s: s.reverse_continue(watch="o[0,0,0,0]"), lambda s: s.reverse_step("line")])
def test_an_interrupt_leaves_the_session_where_it_was(
    attention: Session, monkeypatch: pytest.MonkeyPatch, go: Callable[[Session], object]
) -> None:
    moment = attention.run_to(tensor_op=5)
    original, seeks = StoppableLaunch.seek, []

    def interrupted(self: StoppableLaunch, time: int) -> None:
        seeks.append(time)
        if len(seeks) == 1:
            raise KeyboardInterrupt
        original(self, time)

    monkeypatch.setattr(StoppableLaunch, "seek", interrupted)
    with pytest.raises(KeyboardInterrupt):
        go(attention)
    assert attention.moment is moment and attention.time == moment.time


def test_things_show_themselves(attention: Session) -> None:
    moment = attention.run_to(tensor_op=1)
    assert f"{moment.line}" in str(moment) and "<pre>" in moment._repr_html_()
    html = attention.fragment("a")._repr_html_()
    assert html.count("<td") == 256 and "lane 0" in html
    assert "matrix_a 16×16 f16" in str(attention.fragment("a"))
    assert "two_heads" in repr(attention) and "two_heads" in attention._repr_html_()


def test_why_enters_functions_and_knows_other_names(tmp_path: Path) -> None:
    session = small(
        tmp_path,
        """__device__ float twice(float v)
{
    float both = v;
    both *= 3.0f;
    return both;
}

__device__ void fill(float* to, const float* from, int n)
{
    if (threadIdx.x < n)
        to[threadIdx.x] = from[threadIdx.x];
}

extern "C" __global__ void small(const float* x, float* out, int n)
{
    __shared__ float buffer[64];
    float sums[2];
    for (auto& one : sums)
        one = 1.0f;
    fill(buffer, x, n);
    __syncthreads();
    out[threadIdx.x] = twice(buffer[threadIdx.x]) * sums[threadIdx.x & 1];
}
""",
    )
    session.run_to(line=line_of(session, "out[threadIdx.x] ="))
    far = {one.line: one.distance for one in session.behind(4)}
    assert far[line_of(session, "return both")] == 1 and far[line_of(session, "both *=")] == 2
    assert far[line_of(session, "one = 1.0f")] == 1
    assert far[line_of(session, "to[threadIdx.x] =")] == 2 and far[line_of(session, "if (threadIdx.x")] == 3


def test_lines_that_are_right_do_not_lead_further() -> None:
    session = wmmadiag.debug(KERNELS / "attention" / "wrong" / "bshd_alpha_inverted.toml", case="two_tiles")
    found = session.to_departure()
    stages = {(one.place.line, one.what): one.status for one in found.stages}
    product = line_of(session, "wmma::mma_sync(acc")
    assert stages[product, "result of scores"] == "fits" and found.line == line_of(session, "wmma::mma_sync(acc", 1)
    status = {one.line: one.status for one in session.behind(3)}
    assert status[product] == "fits" and line_of(session, "__expf(m_new - m_i)") in status
    assert line_of(session, "load_matrix_sync(b, &smem.kt") not in status
    assert "≠" in str(found) and "result of scores" in str(found)


def test_an_element_that_nothing_stores_has_stores_near_it() -> None:
    session = wmmadiag.debug(KERNELS / "gemm" / "wrong" / "int8_partial_tiles.toml", case="exact")
    found = session.to_departure()
    assert found.kind == "unwritten" and found.line == line_of(session, "store_matrix_sync(C")
    assert line_of(session, "if (row + 16 < M") in {one.line for one in session.behind(1)}


def test_products_of_intermediates_have_oracle_values() -> None:
    session = wmmadiag.debug(ATTENTION, case="two_heads")
    product = line_of(session, "wmma::mma_sync(acc, p, vf")
    session.run_to(line=product, block=1, count=3)
    weights, sums = session.fragment("a"), session.multiplication()["d"]
    assert weights.reading.startswith("exp(scale·Q·Kᵀ - row reference), of Q[0,")
    assert sums.reading.startswith("row factor·P·V, of softmax(Q[0,") and "≤ k <" in sums.reading
    for one, relative in ((weights, 2.0**-9), (sums, 2.0**-8)):
        assert np.isfinite(one.expected).all()
        assert np.abs(one.difference).max() <= relative * np.abs(one.expected).max()


def off(session: Session) -> float:
    """How far a multiplication's result is from the oracle's, relative to the largest element."""
    result = session.multiplication()["d"]
    return float(np.nanmax(np.abs(result.difference)) / np.nanmax(np.abs(result.expected)))


def test_departure_stops_at_the_multiplication_whose_values_are_wrong_first() -> None:
    session = wmmadiag.debug(KERNELS / "attention" / "wrong" / "bshd_alpha_inverted.toml", case="two_tiles")
    found = session.to_departure()
    time, block = session.time, session.block
    assert found.line == line_of(session, "wmma::mma_sync(acc", 1) and off(session) > 0.1
    # Up to there every multiplication of this line in this block is right.
    session.seek(session.machine.block_starts[block])
    seen = []
    while session.run_to(line=found.line, block=block).time < time:
        seen.append(off(session))
    assert len(seen) >= 8 and max(seen) < 0.01
