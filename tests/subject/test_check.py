from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_backend import Fake

from wmmadiag.errors import CompileError, ConfigurationError, KernelFault, UnsupportedError
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.evaluation import judge
from wmmadiag.place import Place
from wmmadiag.subject import verdict
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.check import check_card, problem
from wmmadiag.subject.inputs import rounded

CARD = """
format = 1
name = "attention"
source = "k.cu"
entry = "attn<{D}>"
[variants.scalar]
macros = { USE_WMMA = 0 }
[variants.wmma]
macros = { USE_WMMA = 1 }
[[arguments]]
role = "q"
dtype = "f16"
[[arguments]]
role = "k"
dtype = "f16"
[[arguments]]
role = "v"
dtype = "f16"
[[arguments]]
role = "o"
dtype = "f16"
pad = { D = 8 }
[launch]
grid = 1
block = 32
[computes]
operation = "attention"
[[cases]]
name = "one"
B = 1
H = 2
S = 32
D = 16
[[cases]]
name = "two"
B = 1
H = 2
S = 48
D = 16
seed = 5
"""


def attention(launch):
    q, k, v, o = launch.arguments
    o = o.reshape(2, -1, 24)
    q, k, v = (x.reshape(2, -1, 16).astype(np.float32) for x in (q, k, v))
    s = q @ k.swapaxes(1, 2) * np.float32(0.25)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    o[..., :16] = (p.astype(np.float16).astype(np.float32) @ v) / p.sum(axis=-1, keepdims=True)
    return o


@pytest.fixture
def card(tmp_path):
    (tmp_path / "k.cu").write_text("")
    return parse_card(CARD, tmp_path / "kernel.toml")


def run(card, kernel, **options):
    fake = Fake(kernel)
    return check_card(card, backend=fake.backend, compiler=fake.compiler, **options), fake


def right(_macros, launch):
    attention(launch)


def faulty(change, only=None):
    def kernel(macros, launch):
        o = attention(launch)
        if macros["USE_WMMA"] == "1" and (only is None or o.shape[1] == only):
            change(launch, o)

    return kernel


def test_a_right_kernel_passes_everywhere(card):
    steps = []
    report, fake = run(card, right, progress=lambda *step: steps.append(step), arch="sm_80")
    assert report.exit_code == 0
    assert [(c.case, c.variant, c.status) for c in report.cases] == [
        ("one", "scalar", "passed"), ("one", "wmma", "passed"), ("two", "scalar", "passed"), ("two", "wmma", "passed"),
    ]  # fmt: skip
    assert len(fake.compilations) == 2, "one compilation per variant, whatever the number of cases"
    assert fake.compilations[0][1].name_expressions == ("attn<16>",)
    assert fake.loads == [("_Zattn<16>", "sm_80")] * 2
    assert steps[0][:2] == (0, 4)
    assert steps[-1][:2] == (4, 4)
    assert report.cases[3].seed == 5
    assert report.cases[3].symbols == {"B": 1, "H": 2, "S": 48, "D": 16}
    assert report.cases[3].warp_instructions == 1000
    assert [o.against for o in report.cases[3].observations] == ["reference", "scalar"]
    assert report.compiled[1].notes == ("a note",)


def test_faults_are_told_at_the_users_line():
    inner = Place("/opt/cuda/include/crt/mma.hpp", 91, 3, "nvcuda::wmma::load_matrix_sync(fragment<a, b>&)",
                  Place("helpers.cuh", 5, 2, "load_tile", Place("k.cu", 40, 9, "attn")))  # fmt: skip
    told = problem(KernelFault("misaligned", kind="misaligned", place=inner))
    assert told.place == "helpers.cuh:5:2"
    assert told.chain.splitlines() == ["  inside nvcuda::wmma::load_matrix_sync (mma.hpp:91)", "  inlined at k.cu:40:9"]
    assert problem(KernelFault("x", kind="y")).place == ""
    only = Place("/opt/cuda/include/crt/mma.hpp", 91)
    assert problem(KernelFault("x", kind="y", place=only)).place.endswith("mma.hpp:91")


def test_choices(card):
    report, _ = run(card, right, variants=["wmma"], cases=["two"], seed=9, inputs="uniform")
    assert [(c.case, c.variant, c.seed, c.distribution) for c in report.cases] == [("two", "wmma", 9, "uniform")]
    assert report.cases[0].repeat.endswith("--arch sm_90 --case two --variant wmma --seed 9 --inputs uniform")
    with pytest.raises(ConfigurationError, match="no case 'three'"):
        run(card, right, cases=["three"])
    with pytest.raises(ConfigurationError, match="no variant 'simt'"):
        run(card, right, variants=["simt"])


def test_a_wrong_tile_is_found_where_it_is(card):
    def change(_launch, o):
        o[1, 16:32, :16] *= 1.25

    report, _ = run(card, faulty(change, only=48))
    assert report.exit_code == 1
    assert [c.status for c in report.cases] == ["passed", "passed", "passed", "failed"]
    seen = report.cases[3].observations[0]
    assert [m.index for m in seen.tiles] == [(0, 1)]
    assert [row[0] > 0 for row in seen.tiles[0].counts] == [False, True, False]
    assert not report.cases[3].observations[1].passed


def test_unwritten_elements(card):
    def change(launch, _o):
        launch.arguments[3].reshape(2, -1, 24).view(np.uint16)[0, 3, 4:6] = 0x7E50 + 3

    report, _ = run(card, faulty(change))
    seen = report.cases[1].observations[0]
    assert (seen.wrong, seen.unwritten, seen.nan) == (2, 2, 0)
    assert seen.first.index == (0, 0, 3, 4)
    assert seen.first.unwritten


@pytest.mark.parametrize(("change", "argument", "kind", "first"), [
    (lambda _, o: o[0, 0].__setitem__(20, 1.0), "o", "guard", 20),
    (lambda launch, _: launch.arguments[1].__setitem__(7, 1.0), "k", "input", 7),
])  # fmt: skip
def test_overwritten_memory_fails_even_if_the_output_is_right(card, change, argument, kind, first):
    report, _ = run(card, faulty(change))
    result = report.cases[1]
    assert result.status == "failed"
    assert result.observations[0].passed
    (damage,) = result.overwritten
    assert (damage.argument, damage.kind, damage.count, damage.first) == (argument, kind, 1, first)


def raising(error):
    def kernel(macros, launch):
        attention(launch)
        if macros["USE_WMMA"] == "1":
            raise error

    return kernel


@pytest.mark.parametrize(("error", "status", "kind", "code"), [
    (KernelFault("far", kind="out-of-bounds", place=Place("k.cu", 7), block=(1, 0, 0), warp=2, lane=3),
     "failed", "out-of-bounds", 1),
    (UnsupportedError("wgmma", place=Place("k.cu", 9)), "undecided", "unsupported", 3),
    (ConfigurationError("wrong argument"), "error", "configuration", 2),
])  # fmt: skip
def test_errors_become_results(card, error, status, kind, code):
    report, _ = run(card, raising(error))
    assert [c.status for c in report.cases] == ["passed", status, "passed", status]
    assert report.cases[1].problem.kind == kind
    assert report.exit_code == code


def test_internal_mistakes_are_not_swallowed(card):
    with pytest.raises(ZeroDivisionError):
        run(card, raising(ZeroDivisionError()))


def test_a_compile_error_is_told_once_per_case_and_compiled_once(card):
    fake = Fake(right)
    compile_it = fake.compiler

    def compiler(path, options):
        compilation = compile_it(path, options)
        if options.macros["USE_WMMA"] == "1":
            raise CompileError("k.cu does not compile", detail="k.cu(3): error")
        return compilation

    report = check_card(card, backend=fake.backend, compiler=compiler)
    assert [c.status for c in report.cases] == ["passed", "error", "passed", "error"]
    assert report.exit_code == 2
    assert len(fake.compilations) == 2


def scores_in_half(_macros, launch):
    q, k, v, o = launch.arguments
    o = o.reshape(2, -1, 24)
    q, k, v = (x.reshape(2, -1, 16).astype(np.float32) for x in (q, k, v))
    s = (q @ k.swapaxes(1, 2) * np.float32(0.25)).astype(np.float16).astype(np.float32)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    o[..., :16] = (p @ v) / p.sum(axis=-1, keepdims=True) * np.float32(1.002)


def test_coarser_arithmetic_is_named(card):
    report, _ = run(card, scores_in_half, cases=["two"], variants=["scalar"], inputs="positive")
    assert report.cases[0].status == "failed"
    assert report.cases[0].notes[0].startswith("every difference would be within the bound with ")


def test_coarser_arithmetic_without_a_bound_explains_nothing(card, monkeypatch):
    asked = []

    def without_bound(operation, parameters, *rest):
        asked.append(parameters)
        found = judge(operation, parameters, *rest)
        if parameters == asked[0]:
            return found
        return {role: replace(one, bound=np.full_like(one.bound, np.inf)) for role, one in found.items()}

    monkeypatch.setattr(verdict, "judge", without_bound)
    report, _ = run(card, scores_in_half, cases=["two"], variants=["scalar"], inputs="positive")
    assert report.cases[0].status == "failed"
    assert len(asked) > 1
    assert not any("within the bound with" in note for note in report.cases[0].notes)


RECTIFIED = """
format = 1
source = "k.cu"
entry = "k"
[computes]
operation = "gemm"
activation = "relu"
[[arguments]]
role = "a"
dtype = "f32"
[[arguments]]
role = "b"
dtype = "f32"
[[arguments]]
role = "d"
dtype = "f32"
[launch]
grid = 1
block = 32
[[cases]]
M = 32
N = 48
K = 64
"""


@pytest.mark.parametrize("everywhere", [True, False])
def test_coarser_arithmetic_is_named_where_an_activation_makes_nought_of_half(tmp_path, everywhere):
    def kernel(_macros, launch):
        a, b, d = launch.arguments
        a, b = (rounded(x.astype(np.float64), TYPES["tf32"]).astype(np.float64) for x in (a, b))
        made = np.maximum(a.reshape(32, 64) @ b.reshape(64, 48), 0.0)
        exact = np.maximum(launch.arguments[0].reshape(32, 64).astype(np.float64)
                           @ launch.arguments[1].reshape(64, 48).astype(np.float64), 0.0)  # fmt: skip
        if not everywhere:
            made[2:] = exact[2:]
        d.reshape(32, 48)[...] = made

    (tmp_path / "k.cu").write_text("", "utf-8")
    report, _ = run(parse_card(RECTIFIED, tmp_path / "card.toml"), kernel)
    assert report.cases[0].status == "failed"
    said = any('multiply = "tf32"' in one for one in report.cases[0].notes)
    assert said == everywhere


def test_against_another_kernel(card, tmp_path):
    other = parse_card(CARD.replace('name = "attention"', 'name = "baseline"', 1), tmp_path / "other.toml")
    report, _ = run(card, right, against=other, variants=["wmma"])
    assert [o.against for o in report.cases[0].observations] == ["reference", "baseline"]


PYTHON_CARD = """
format = 1
source = "k.cu"
entry = "k"
[[arguments]]
name = "x"
role = "x"
dtype = "f32"
shape = ["N"]
[[arguments]]
name = "y"
role = "y"
dtype = "f32"
shape = ["N", 2]
direction = "out"
[launch]
grid = 1
block = 32
[computes]
operation = "python"
python = "reference.py:double"
[[cases]]
N = 20
"""


@pytest.mark.parametrize(("code", "extra", "status", "text"), [
    ("def double(a, s):\n    return a['x'][:, None] * [2, 3]", "tolerance = { rtol = 1e-6 }", "passed", ""),
    ("def double(a, s):\n    return {'y': (a['x'][:, None] * [2, 3], 1e-5)}", "", "passed", ""),
    ("def double(a, s):\n    return a['x'][:, None] * [2, 4]", "tolerance = { rtol = 1e-6 }", "failed", ""),
    ("def double(a, s):\n    return a['x'][:, None] * [2, 3]", "", "error", "no bound for 'y'"),
    ("def double(a, s):\n    return a['z']", "tolerance = { rtol = 1e-6 }", "error", "reference.py:2"),
    ("def double(a, s):\n    return a['x']", "tolerance = { rtol = 1e-6 }", "error", "shape"),
    ("def double(a, s):\n    return 'abc'", "tolerance = { rtol = 1e-6 }", "error", "array of numbers"),
    ("def double(a, s) return 1", "tolerance = { rtol = 1e-6 }", "error", "cannot be imported"),
    ("def double(a, s):\n    raise SystemExit(0)", "tolerance = { rtol = 1e-6 }", "error", "reference.py:2"),
    ("import sys\nsys.exit(0)", "tolerance = { rtol = 1e-6 }", "error", "cannot be imported"),
    ("def double(a, s):\n    return a['x'][:, None] * [2, 3j]", "tolerance = { rtol = 1e-6 }", "error", "complex"),
    ("def double(a, s):\n    return a['x'][:, None] * [2, 3], float('nan')", "", "error", "negative numbers or NaN"),
    ("def other(a, s): return 1", "tolerance = { rtol = 1e-6 }", "error", "no function 'double'"),
    (None, "tolerance = { rtol = 1e-6 }", "error", "no reference file"),
])  # fmt: skip
def test_python_references(tmp_path, code, extra, status, text):
    (tmp_path / "k.cu").write_text("")
    if code is not None:
        (tmp_path / "reference.py").write_text(code + "\n")
    card = parse_card(PYTHON_CARD.replace("[[arguments]]", extra + "\n[[arguments]]", 1), tmp_path / "kernel.toml")

    def kernel(_macros, launch):
        launch.arguments[1][...] = (launch.arguments[0][:, None] * np.float32([2, 3])).reshape(-1)

    report, _ = run(card, kernel)
    assert report.cases[0].status == status, report.cases[0].problem
    problem = report.cases[0].problem
    if text:
        assert text in f"{problem.place} {problem.message} {problem.detail}"
    assert not (tmp_path / "__pycache__").exists()
