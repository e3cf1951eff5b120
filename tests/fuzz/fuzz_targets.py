"""What is fuzzed: each target has seeds, and a function that takes one input and says what became of it.

"accepted" or "refused" (an error for the user) are right; any other exception, a dead process, or silence is a mistake.
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from fuzz_mutations import made

from wmmadiag.errors import WmmadiagError

ROOT = Path(__file__).parents[2]
SEEDS = Path(__file__).parent / "seeds"


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of input.

    Attributes:
        name: what it is.
        seeds: inputs that are right.
        once: takes one; returns a word for the statistics.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    once: Callable[[bytes], str]


class Wrong(AssertionError):
    """A kernel that is wrong was called right."""


def _seed_files(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(SEEDS.glob(pattern))]


def _ptx_seeds() -> list[bytes]:
    return _seed_files("*.ptx")


def _run_ptx(data: bytes) -> str:
    """Parse, lower, launch on small arrays with all checks, within a small budget."""
    from wmmadiag import emulator
    from wmmadiag.checks import native_names, select
    from wmmadiag.emulator import Budget, EmulatorOptions
    from wmmadiag.launch import Launch

    options = EmulatorOptions(threads=1, budget=Budget(20_000, 20.0), checks=native_names(select("default")))
    kernel = emulator.load(data.decode("utf-8", "replace"), options=options)
    arrays = [np.zeros(512, kind) for kind in (np.float16, np.float16, np.float32)]
    kernel.launch(Launch((2, 1, 1), (64, 1, 1), [*arrays, np.int32(16)], 1024, ("a", "b", "c", "n")))
    return "accepted"


CARD = """format = 1
source = "k.ptx"
entry = "gemm"
arguments = [
    { name = "A", role = "a", dtype = "f16" },
    { name = "B", role = "b", dtype = "f16" },
    { name = "C", role = "d", dtype = "f32" },
    { name = "n", dtype = "s32", value = "K" },
]
launch = { grid = 1, block = 32 }
computes = { operation = "gemm" }
cases = [{ name = "one", M = 16, N = 16, K = 32 }]
"""


def _judge_ptx(data: bytes) -> str:
    """Judge a kernel as the gate does; one that passes must give what NumPy gives on other inputs."""
    import wmmadiag
    from wmmadiag.backends import RunLimits

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.ptx").write_bytes(data)
        card = Path(folder) / "k.toml"
        card.write_text(CARD)
        limits = RunLimits(threads=1, instructions=20_000)
        report = wmmadiag.check(card, limits=limits, use_cache=False)
        if report.exit_code:
            return f"exit {report.exit_code}"
        kernel = wmmadiag.kernel(Path(folder) / "k.ptx", "gemm", limits=limits)
        a, b = np.random.default_rng(1).standard_normal((2, 512)).astype(np.float16)
        out = np.full(256, np.nan, np.float32)
        kernel.launch(1, 32, a, b, out, np.int32(32))
        want = a.reshape(16, 32).astype(np.float64) @ b.reshape(32, 16).astype(np.float64)
        if not np.allclose(out.reshape(16, 16), want, atol=1e-2):
            raise Wrong("passed, and gives other numbers")
    return "exit 0"


def _card_seeds() -> list[bytes]:
    cards = [ROOT / "kernels" / name / "kernel.toml" for name in ("gemm", "attention", "attention_fused", "qkt")]
    return [path.read_bytes() for path in cards]


@cache
def _gemm_folder() -> Path:
    return Path(shutil.copytree(ROOT / "kernels" / "gemm", Path(tempfile.mkdtemp()) / "gemm"))


def _read_card(data: bytes) -> str:
    """Read a card beside a copy of gemm's source, and bind its first case."""
    from wmmadiag.subject.binding import bind
    from wmmadiag.subject.card_files.read import load_card

    path = _gemm_folder() / "kernel.toml"
    path.write_bytes(data)
    card = load_card(path)
    if all(isinstance(value, int) and value <= 512 for value in card.cases[0].symbols.values()):
        bind(card, card.cases[0], card.variants[0])
    return "accepted"


def _plan_seeds() -> list[bytes]:
    return [_PLAN.replace("'pairwise'", f"'{how}'").encode() for how in ("pairwise", "full", "random")]


_PLAN = """name = "n"
[[subjects]]
paths = ["kernel.toml"]
sizes = { M = "0..300", N = { range = "16..512", multiple_of = 16 }, K = [64, 128], beta = [0, "alpha"] }
requires = ["M % 2 == 0", "N >= M"]
variants = ["default"]
[axes]
arch = ["sm_80", "sm_90"]
inputs = ["normal", "wide_exponents"]
seeds = 3
schedules = [0, 2]
displaced = [0, 16]
[cover]
how = 'pairwise'
cases = 10
seed = 4
[run]
checks = "default"
instructions = 200_000
slice = 64
"""


def _read_plan(data: bytes) -> str:
    """Read a plan of gemm's, and make its first points."""
    from wmmadiag.campaign.plan import read_plan
    from wmmadiag.campaign.points import counted, points, spaces

    if len(data) > 1 << 14:
        return "too long"
    path = _gemm_folder() / "plan.toml"
    path.write_bytes(data)
    plan = read_plan(path)
    for subjects in plan.subjects:
        for space in spaces(plan, subjects):
            counted(plan, space)
            for point in itertools.islice(points(plan, space), 5):
                if not space.has(point):
                    raise Wrong("a plan made a point that it has not")
    return "accepted"


def _source_seeds() -> list[bytes]:
    return [path.read_bytes() for path in sorted(ROOT.glob("kernels/*/*.cu"))] + _seed_files("*.cu")


def _read_source(data: bytes) -> str:
    """Parse a source, list what it declares, and take the host code out as the compiler's front end does."""
    from wmmadiag.compile.blanking import without_host_code
    from wmmadiag.compile.host_only import judged
    from wmmadiag.csource.declarations import declarations
    from wmmadiag.csource.tree import parse

    source = parse(data, "k.cu")
    declarations(source)
    left = without_host_code(source, judged({"k.cu": source})["k.cu"])
    if len(left) != len(source.data) or left.count(b"\n") != source.data.count(b"\n"):
        raise Wrong("lines have moved")
    return "accepted"


@cache
def _packed() -> list[bytes]:
    from wmmadiag.bundle.write import write_bundle

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "b.zip"
        write_bundle(ROOT / "kernels" / "gemm" / "kernel.toml", file, cases=["odd"])
        data = file.read_bytes()
    plain = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(plain, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return [data, plain.getvalue()]


def _read_bundle(data: bytes) -> str:
    from wmmadiag.bundle.read import contents

    contents(data, "b.zip")
    return "accepted"


@cache
def _runs() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "reports").rglob("*.json"))][:2] or [_made_run()]


def _made_run() -> bytes:
    from wmmadiag.gate.batch import check_all, run_of
    from wmmadiag.gate.task import Task
    from wmmadiag.results import json_file

    card = ROOT / "kernels" / "gemm" / "kernel.toml"
    tasks = [Task(card, None, ("odd",), options={"use_cache": False}, record=True)]
    return json_file.render(run_of(list(check_all(tasks)))).encode()


def _read_run(data: bytes) -> str:
    """Read a run and render all reports of it."""
    from wmmadiag.report import github, html, junit, markdown, sarif, terminal
    from wmmadiag.results import json_file

    run = json_file.parse(data, "run.json")
    for render in (github.render, html.render, junit.render, markdown.render, sarif.render, terminal.render_run):
        render(run)
    return "accepted"


def _cache_seeds() -> list[bytes]:
    from wmmadiag.compile import cache as entries

    entries.store("0" * 64, {"text": "a" * 200, "list": [1, 2.5, None], "deep": {"x": {}}}, "fuzz")
    return [next(entries.cache_folder().glob("fuzz*/*")).read_bytes()]


def _read_entry(data: bytes) -> str:
    """Put an entry into the cache; what is not whole must be missing, never another value."""
    from wmmadiag.compile import cache as entries

    path = next(entries.cache_folder().glob("fuzz*/*"))
    path.write_bytes(data)
    found = entries.load("0" * 64, "fuzz")
    if found is not None and data != _cached_seed():
        raise Wrong("a damaged entry was taken")
    path.write_bytes(_cached_seed())
    return "refused" if found is None else "accepted"


@cache
def _cached_seed() -> bytes:
    return _cache_seeds()[0]


_FORMULAS = (
    "// z[m, :] = x[m, :] @ v + bias\n// y[m, n] = tanh(z[m, n]) * sigmoid(bias[n])    (x [M, K], v [K, N])\n",
    "// y(m, n)^2 = |x_m|^2 + |w_n|^2 - 2 <x_m, w_n> for n <= m\n",
    "/* y += softmax(x w^T / sqrt(K)), same as torch.cov(x.T)\n * y[m, n] = sum_{k <= n} x[m, k - 1] w[n, k] */\n",
    "// y = clamp(round(rmsnorm(x, bias, 1e-5) . v), -128, 127) + max_k x[m, k]\n",
)


def _read_formula(data: bytes) -> str:
    """Read comments, and evaluate what they say of small tensors."""
    from wmmadiag.numerics.element_types import TYPES
    from wmmadiag.ops.formulas.evaluate import evaluated
    from wmmadiag.ops.formulas.functions import Reckoning
    from wmmadiag.ops.formulas.indices import NamedTensor, Wanted
    from wmmadiag.ops.formulas.tree import FormulaError
    from wmmadiag.ops.parts.rounding import arithmetic
    from wmmadiag.subject.drafts.stated.comments import stated

    shapes = {"x": ("M", "K"), "v": ("K", "N"), "w": ("N", "K"), "bias": ("N",), "y": ("M", "N")}
    sizes = {"M": 3, "N": 5, "K": 4}
    extents = {name: tuple(sizes[one] for one in dims) for name, dims in shapes.items()}
    tensors = {
        name: NamedTensor(np.linspace(-1, 1, int(np.prod(extents[name]))).reshape(extents[name]), dims)
        for name, dims in shapes.items()
    }
    wanted = {"y": Wanted((3, 5), ("M", "N"), tensors["y"].v)}
    found = stated(data.decode("utf-8", "replace"), shapes.__contains__)
    word = "refused"
    for one in found.formulas:
        try:
            evaluated([one.statement], tensors, sizes, wanted, Reckoning(arithmetic({}, TYPES["f32"])))
            word = "accepted"
        except (FormulaError, ValueError, IndexError, KeyError, TypeError, ArithmeticError, RecursionError):
            pass  # as `formula_reference` takes them
    return word


TARGETS = {
    one.name: one
    for one in (
        Target("ptx", _ptx_seeds, _run_ptx),
        Target("gate", lambda: _seed_files("gemm*.ptx"), _judge_ptx),
        Target("card", _card_seeds, _read_card),
        Target("formula", lambda: [one.encode() for one in _FORMULAS], _read_formula),
        Target("plan", _plan_seeds, _read_plan),
        Target("source", _source_seeds, _read_source),
        Target("bundle", _packed, _read_bundle),
        Target("run", _runs, _read_run),
        Target("entry", lambda: [_cached_seed()], _read_entry),
    )
}


def outcome(target: Target, data: bytes) -> str:
    """What became of one input.

    Raises:
        Exception: a mistake of wmmadiag's.
    """
    try:
        return target.once(data)
    except WmmadiagError:
        return "refused"


def serve(connection: Connection) -> None:
    """Take parts (target, seed, first number, count) until the connection closes; answer with counts by word, or with
    the number of the first mistake and what it was.
    """
    os.environ["WMMADIAG_CACHE_DIR"] = tempfile.mkdtemp()
    seeds: dict[str, Sequence[bytes]] = {}
    while True:
        request = connection.recv()
        if request == "loaded":
            maps = Path("/proc/self/maps").read_text()
            import wmmadiag.emulator.native as native

            native.engine()
            connection.send((maps, Path("/proc/self/maps").read_text()))
            continue
        name, seed, first, count = request
        target = TARGETS[name]
        if name not in seeds:
            seeds[name] = target.seeds()
        counts: dict[str, int] = {}
        mistake = None
        for number in range(first, first + count):
            try:
                word = outcome(target, made(seeds[name], seed, number))
            except Exception as error:  # whatever it is
                mistake = (number, f"{type(error).__name__}: {error}")
                break
            counts[word] = counts.get(word, 0) + 1
        connection.send((counts, mistake))
