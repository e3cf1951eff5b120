"""Variables that keep their values: every kind of place that gives one, divergent lanes, and any expression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debugged import KERNELS, line_of, small

import wmmadiag
from wmmadiag.compile.ptx_scan import mapped_columns
from wmmadiag.debugger import Session
from wmmadiag.debugger.interpreter import Interpreter
from wmmadiag.debugger.kept import kept
from wmmadiag.errors import ConfigurationError

SOURCE = """#include <cuda_fp16.h>
#define TWICE(value) value *= 2
struct Shape { int rows; int cols; };
__device__ float halved(float value) { return value / 2; }
template <int Step>
__device__ void moved(int& by) { int step = Step; by += step; }

extern "C" __global__ void small(const float* x, float* out, int n)
{
    const int warp = threadIdx.y, k = threadIdx.x + 40;
    int chosen = 5;
    if (threadIdx.x < 7) chosen = 1; else if (threadIdx.x < 9) { chosen = 2; } else chosen += 3;
    float total = 0.0f, before = x[0];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        total += x[i] * i;
    for (int i = 0; i < 3; i++) for (int j = i; j < 3; ++j) total += j;
    half small_one = __float2half(total);
    double wide = total / 3.0;
    long long far = (long long)n << 33;
    unsigned char byte = (unsigned char)(250 + threadIdx.x);
    bool even = !(threadIdx.x & 1);
    float2 pair = make_float2(total, halved(total));
    const float* from = x + 3;
    Shape shape = {n, chosen};
    int by = 10;
    moved<3>(by);
    int left = 5, steps = 0;
    while (left > 2) left--, ++steps;
    do { TWICE(steps); } while (steps < 10);
    switch (chosen) { case 1: by = 100; break; case 2: by = 200; default: by += 7; }
    int unknown;
    unknown = chosen ? by : left;
    out[threadIdx.x] = total + (float)wide + far + byte + even + pair.y + from[0] + shape.rows + by + steps + unknown
        + __half2float(small_one) + k + warp;
}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    made = kept(small(tmp_path_factory.mktemp("kept"), SOURCE, block=32, n=32))
    made.run_to(line=line_of(made, "out[threadIdx.x]"))
    return made


def values(session: Session, name: str) -> Any:
    return session.variable(name).values


LANE = np.arange(32)
CHOSEN = np.where(LANE < 7, 1, np.where(LANE < 9, 2, 8))


def total(session: Session) -> np.float32:
    x = session.values("x").astype(np.float32)
    found = np.float32(0)
    for i in range(4):
        found = np.float32(np.float64(found) + np.float64(x[i]) * i)
    for i in range(3):
        for j in range(i, 3):
            found = np.float32(found + j)
    return found


def test_every_kind_of_statement_gives_a_value(session: Session) -> None:
    assert (values(session, "chosen") == CHOSEN).all()
    assert values(session, "left")[0] == 2 and values(session, "steps")[31] == 12
    assert (values(session, "by") == np.where(LANE < 7, 100, np.where(LANE < 9, 207, 20))).all()
    assert (values(session, "unknown") == values(session, "by")).all()


def test_every_type_is_read_as_what_it_is(session: Session) -> None:
    sum_ = total(session)
    assert values(session, "total")[5] == pytest.approx(sum_, rel=1e-6)
    assert values(session, "small_one").dtype == np.float16 and values(session, "small_one")[0] == np.float16(sum_)
    assert values(session, "wide")[0] == pytest.approx(float(sum_) / 3, rel=1e-6)
    assert (values(session, "far") == 32 << 33).all()
    assert (values(session, "byte") == (250 + LANE) % 256).all()
    assert (values(session, "even") == (LANE % 2 == 0)).all()
    assert values(session, "pair").shape == (32, 2) and values(session, "pair")[0, 1] == pytest.approx(sum_ / 2)
    assert (values(session, "from") == values(session, "from")[0]).all()


def test_shared_arrays_keep_their_shapes() -> None:
    made = kept(wmmadiag.debug(KERNELS / "attention" / "wrong" / "qk_not_transposed.toml"))
    assert made.values("sK").ndim == 2


def test_a_source_s_own_names_hide_those_of_the_prompt(session: Session) -> None:
    assert (values(session, "warp") == 0).all() and (values(session, "k") == LANE + 40).all()


def test_nothing_else_changes(session: Session, tmp_path: Path) -> None:
    results = []
    for make in (lambda one: one, kept):
        made = make(small(tmp_path, SOURCE, block=32, n=32))
        made.run_to(end=True)
        results.append(made.values("out"))
    assert np.array_equal(*(one.view(np.uint32) for one in results))


@pytest.mark.slow
def test_any_expression_of_the_scope(session: Session) -> None:
    prompt = Interpreter(session)
    session.select(lane=8)

    def shown(text: str) -> str:
        return prompt.run(f"print {text}").text.rpartition("= ")[2]

    assert shown("(float)chosen / 4") == "0.5"
    assert float(shown("halved(total) * 2")) == pytest.approx(float(total(session)), rel=1e-3)
    assert shown("chosen > 1 ? by : -1") == "207"
    assert shown("shape.cols * 10") == shown("shape.cols + 18") == "20"
    assert shown("shape.cols") == "2"
    assert float(shown("from[2]")) == pytest.approx(float(session.values("x")[5]), rel=1e-3)
    assert shown("sizeof(Shape)") == "8"
    assert shown("chosen * 3 + k") == "54"  # what the prompt knows is not compiled
    before = session.time
    with pytest.raises(ConfigurationError, match='identifier "nothing" is undefined'):
        prompt.run("print nothing(3)")
    with pytest.raises(ConfigurationError, match="no number"):
        prompt.run("print (shape.rows, make_float4(1, 2, 3, 4))")
    assert session.time == before


def test_what_only_the_compiler_computes_leads_to_keep(tmp_path: Path) -> None:
    plain = wmmadiag.debug(KERNELS / "softmax" / "kernel.toml")
    prompt = Interpreter(plain)
    plain.run_to(line=26, block=8, count=2)
    where = plain.moment
    assert float(prompt.run("print __expf(scale)").text.rpartition("= ")[2]) > 1
    session = prompt.session
    assert session is not plain and session.target.kept
    assert (session.block, session.warp, session.moment.place.line) == (where.block, where.warp, where.place.line)
    assert (session.variable("i").values == LANE + 32).all()  # the second time round, as before
    row, start, many = (int(session.variable(name).values[0]) for name in ("row", "start", "seen"))
    scores, mask = (session.values(name).astype(np.float64).reshape(-1) for name in ("scores", "mask"))
    first = row * session.variable("cols")
    seen = scores[start : start + many] * session.variable("scale") + mask[first : first + many]
    largest = session.variable("largest").values[0]
    assert largest == pytest.approx(seen.max(), rel=1e-5)
    assert session.variable("sum").values[0] == pytest.approx(np.exp(seen - seen.max()).sum(), rel=1e-4)
    with pytest.raises(ConfigurationError, match="kept already"):
        prompt.run("keep")


def test_a_variable_that_others_may_write_has_no_marker(tmp_path: Path) -> None:
    source = SOURCE.replace("int unknown;", "int unknown; int* to = &left; *to = 77; int& alias = steps; alias = 78;")
    made = kept(small(tmp_path, source, block=32, n=32))
    names = {name for name in made.locals if _has_marker(made, name)}
    assert "chosen" in names and not names & {"left", "steps"}


def _has_marker(session: Session, name: str) -> bool:
    return any(
        (one.file.name, one.variable.declarator.start_byte) in session.target.kept
        for one in session.declared.locals
        if one.variable.name == name
    )


def test_a_marker_that_does_not_compile_is_left_out(tmp_path: Path) -> None:
    """A statement of a macro that is more than one: what stands behind it is no statement's any more."""
    source = SOURCE.replace("#define TWICE", "#define BEGIN if (n > 0) {\n#define END }\n#define TWICE").replace(
        "    int unknown;", "    int unknown; BEGIN left = 9; END"
    )
    made = kept(small(tmp_path, source, block=32, n=32))
    made.run_to(line=line_of(made, "out[threadIdx.x]"))
    assert (values(made, "chosen") == CHOSEN).all() and (values(made, "left") == 9).all()


def test_ptx_has_no_variables_to_keep(tmp_path: Path) -> None:
    plain = small(tmp_path, SOURCE, block=32, n=32)
    (tmp_path / "small.ptx").write_text(plain.target.compilation.ptx.replace(".cu", ".gone"))
    card = tmp_path / "small.toml"
    card.write_text(card.read_text().replace("small.cu", "small.ptx"))
    with pytest.raises(ConfigurationError, match="no CUDA source"):
        kept(wmmadiag.debug(card))


def test_columns_of_callers_are_mapped_too() -> None:
    ptx = '.file 1 "a.cu"\n.loc 1 5 40, function_name L, inlined_at 1 9 30\n.loc 1 6 3\n'
    made = mapped_columns(ptx, lambda file, line, column: column - 20 if (file, line) != ("a.cu", 6) else column)
    assert ".loc 1 5 20, function_name L, inlined_at 1 9 10\n.loc 1 6 3" in made
