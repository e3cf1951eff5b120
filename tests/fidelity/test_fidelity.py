"""The emulator against a GPU: here another emulator stands in for it, whose answers can be spoilt."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_parts import from_registers, matrix_dtype, mma, pack_a, pack_b

from wmmadiag.campaign.cluster import TaskDone
from wmmadiag.campaign.journal import Journal
from wmmadiag.campaign.run import here
from wmmadiag.cli.main import main
from wmmadiag.errors import CompileError, ConfigurationError
from wmmadiag.fidelity import bundle, report
from wmmadiag.fidelity.compare import Compared, Piece, compared, emulated
from wmmadiag.fidelity.families import FAMILIES
from wmmadiag.fidelity.lane_operands import drawing
from wmmadiag.fidelity.run import Fidelity, FidelityPlan, pieces, run_fidelity
from wmmadiag.fidelity.tensor import drawn_matrices, tensor_case, tensor_forms, to_registers
from wmmadiag.gpu.assemble import Assembly
from wmmadiag.gpu.devices import Device
from wmmadiag.launch import Launch, LoadedKernel, RunStats
from wmmadiag.numerics.tensor_core import mma_rule

ARCH = "sm_90"
FORM = "mma/m16n8k16/f32.f16.f16.f32"


class _Spoilt:
    """A kernel whose last array gets one wrong bit, in element 5."""

    def __init__(self, kernel: LoadedKernel) -> None:
        self._kernel = kernel

    def launch(self, launch: Launch) -> RunStats:
        stats = self._kernel.launch(launch)
        array = list(launch.writable().values())[-1]
        array.reshape(-1).view(np.uint8)[5 * array.itemsize] ^= 1
        return stats


def _same(ptx: str, entry: str, arch: str, _: Assembly) -> LoadedKernel:
    return emulated(ptx, entry, arch)


def _wrong(ptx: str, entry: str, arch: str, _: Assembly) -> LoadedKernel:
    return _Spoilt(emulated(ptx, entry, arch))


def _refused(ptx: str, entry: str, arch: str, _: Assembly) -> LoadedKernel:
    raise CompileError("ptxas crashed")


@pytest.mark.parametrize("key", tensor_forms(ARCH))
def test_a_case_computes_the_instruction(key: str) -> None:
    form = tensor_forms(ARCH)[key]
    case = tensor_case(ARCH, key, seed=3, tiles=1)
    out = case.run(emulated(case.ptx, case.entry, ARCH))["d"]
    rng = drawing(key, 3)
    instruction, shape, types = key.split("/")
    d, a_type, b_type, c_type = types.split(".")[:4]
    bit_op = next((op for op in ("xor_popc", "and_popc") if op.replace("_", ".") in types), "")
    rule = mma_rule(ARCH, instruction, shape, a_type, b_type, c_type, d, ".satfinite" in types, bit_op)
    for row, kind in enumerate(form.cases):
        a, b, c = drawn_matrices(form, rng, kind, 1)
        tiles = np.stack(
            [
                mma(rule, pack_a(a[0, i], a_type), pack_b(b[0, i], b_type), c[0, i]).view(matrix_dtype(d))
                for i in range(form.maps[3].tiles)
            ]
        ).reshape(1, form.maps[3].tiles, rule.m, rule.n)
        expected = to_registers(form.maps[3], tiles)
        assert (out[row].view(expected.dtype) == expected.reshape(-1)).all(), kind


def test_registers_hold_each_element_where_its_map_says() -> None:
    map_ = tensor_forms(ARCH)[FORM].maps[0]
    matrices = np.arange(2 * 16 * 16, dtype=np.uint16).reshape(2, 1, 16, 16)
    elements = from_registers(map_, to_registers(map_, matrices))
    assert (elements == matrices[:, map_.tile, map_.row, map_.col]).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_differs_from_itself_and_a_wrong_bit_is_found(family: str) -> None:
    key = FAMILIES[family].keys(ARCH)[1]
    piece = Piece(ARCH, family, key, 7, min(128, FAMILIES[family].size))
    same = compared(piece, _same)
    assert same.outputs > 0
    assert (same.differing, same.first) == (0, None)
    other = compared(piece, _wrong)
    assert other.differing == 1
    assert other.first is not None
    assert other.first.element == 5
    assert other.first.emulator ^ other.first.gpu == 1


def test_another_seed_is_another_case() -> None:
    for family in ("tensor", "instructions", "warps", "programs", "kernels"):
        key = FAMILIES[family].keys(ARCH)[1]
        size = min(128, FAMILIES[family].size)
        runs = []
        for seed in (1, 1, 2):
            case = FAMILIES[family].make(ARCH, key, seed, size)
            runs.append(b"".join(one.tobytes() for one in case.run(emulated(case.ptx, case.entry, ARCH)).values()))
        assert runs[0] == runs[1] != runs[2], family


def test_what_the_assembler_refuses_is_left_out() -> None:
    found = compared(Piece(ARCH, "tensor", FORM, 1, 4), _refused)
    assert (found.outputs, found.left_out) == (0, "ptxas crashed")


def test_a_plan_gives_each_form_its_share() -> None:
    counts: dict[str, int] = {}
    for piece in pieces(FidelityPlan(ARCH, outputs=10**8, families=("tensor",))):
        form = tensor_forms(ARCH)[piece.key]
        counts[piece.key] = counts.get(piece.key, 0) + piece.size * len(form.cases) * form.outputs
    assert set(counts) == set(tensor_forms(ARCH))
    assert min(counts.values()) * len(counts) >= 10**8
    assert max(counts.values()) < 2 * min(counts.values())
    assert len(set(pieces(FidelityPlan(ARCH, outputs=1000)))) == len(list(pieces(FidelityPlan(ARCH, outputs=1000))))


def test_there_is_no_such_family() -> None:
    with pytest.raises(ConfigurationError, match="no family is called tensors"):
        list(pieces(FidelityPlan(ARCH, families=("tensors",))))


def _executor(load: Any, calls: list[Piece]) -> Callable[..., Iterator[TaskDone[Any, Any]]]:
    def execute(_: Callable[[Piece], Any], works: Iterable[Piece]) -> Iterator[TaskDone[Any, Any]]:
        for work in works:
            calls.append(work)
            yield TaskDone(work, compared(work, load)) if work.key != FORM else TaskDone(work, error="it died")

    return execute


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    plan = FidelityPlan(ARCH, outputs=1000, families=("tensor",))
    first: list[Piece] = []
    with Journal(tmp_path / "j") as journal:
        found = run_fidelity(plan, journal, _executor(_wrong, first))
    forms = len(tensor_forms(ARCH))
    assert len(first) == forms
    assert found.differing == forms - 1
    assert [piece.key for piece in found.errors] == [FORM]
    again: list[Piece] = []
    with Journal(tmp_path / "j") as journal:
        resumed = run_fidelity(plan, journal, _executor(_same, again))
    assert [piece.key for piece in again] == [FORM]
    assert resumed.counts == found.counts
    text = report.text(resumed, "a GPU")
    assert f"{found.outputs:,} outputs compared, {forms - 1:,} differ" in text
    assert f"not compared: tensor {FORM}, seed 1: it died" in text
    assert report.as_json(resumed, "a GPU", "2026-01-01", 1.0)["differing"] == forms - 1


def test_a_difference_in_a_file_is_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "difference.wmmadiag"
    path.write_bytes(bundle.packed(Piece(ARCH, "tensor", FORM, 9, 4), _wrong))
    assert main(["replay", str(path)]) == 1
    assert "1 of 2,560 outputs differ\nthe first: spread, d[5]: " in capsys.readouterr().out
    path.write_bytes(bundle.packed(Piece(ARCH, "tensor", FORM, 9, 4), _same))
    assert main(["replay", str(path)]) == 0


@pytest.mark.parametrize("spoil", [{"family": "none"}, {"key": "mma/m1"}, {"seed": 10}, {"size": 8}, {"arch": 3}])
def test_a_file_of_another_case_is_refused(tmp_path: Path, spoil: dict[str, Any]) -> None:
    import zipfile

    made = tmp_path / "made"
    made.write_bytes(bundle.packed(Piece(ARCH, "tensor", FORM, 9, 4), _same))
    path = tmp_path / "spoilt"
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == bundle.MANIFEST:
                manifest = json.loads(data)
                manifest["piece"] |= spoil
                data = json.dumps(manifest).encode()
            new.writestr(name, data)
    if spoil == {"seed": 10}:  # a case like any other; the GPU's answers are then not its
        assert bundle.repeated(path).differing > 0
        return
    with pytest.raises(ConfigurationError):
        bundle.repeated(path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    data = bundle.packed(Piece(ARCH, "tensor", FORM, 9, 4), _same)
    path = tmp_path / "cut"
    rng = np.random.default_rng(0)
    for _ in range(40):
        spoilt = bytearray(data)
        spoilt[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(spoilt))
        if bundle.is_difference(path):
            try:
                bundle.repeated(path)
            except ConfigurationError as error:
                assert str(path) in error.message


def test_what_is_left_out_is_not_taken_for_equal() -> None:
    piece = Piece("tensor", "one", "sm_90", 1, 1)
    found = Fidelity(FidelityPlan("sm_90"))
    assert not found.complete
    found.add(Compared(piece, outputs=8))
    assert found.complete
    found.add(Compared(piece, left_out="the assembler refuses it"))
    assert not found.complete


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> Any:
        raise ConfigurationError("no NVIDIA driver is installed here")

    monkeypatch.setattr("wmmadiag.gpu.device", none)
    assert main(["campaign", "--fidelity"]) == 2
    assert "a fidelity run needs a GPU" in capsys.readouterr().err
    assert main(["campaign", "--fidelity", "--html", "x.html"]) == 2
    assert "--html is for campaigns with a plan" in capsys.readouterr().err
    assert main(["campaign"]) == 2
    assert "--fidelity" in capsys.readouterr().err


def test_the_gpu_may_be_a_worker_s(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    @contextlib.contextmanager
    def elsewhere(scheduler: str, *_: Any, **options: Any) -> Iterator[Any]:
        asked.append((scheduler, options["gpu"]))
        with monkeypatch.context() as there:
            there.setattr("wmmadiag.gpu.device", lambda: Device(0, "a worker's", ARCH, 1, 1, 1, "13.0"))
            yield here

    monkeypatch.setattr("wmmadiag.campaign.api.executor", elsewhere)
    monkeypatch.setattr("wmmadiag.fidelity.compare.on_gpu", _same)
    words = ["campaign", "--fidelity", "--scheduler", "tcp://cluster:8786", "--only", "warps", "--journal"]
    assert main([*words, str(tmp_path / "one")]) == 0
    assert asked == [("tcp://cluster:8786", True)] and "a worker's, CUDA 13.0" in capsys.readouterr().out

    monkeypatch.setattr("wmmadiag.campaign.api.executor", lambda *_, **__: contextlib.nullcontext(_nobody))
    assert main([*words, str(tmp_path / "two")]) == 2
    assert "no GPU on the worker that says it has one: no driver" in capsys.readouterr().err


def _nobody(_: Any, works: Iterable[Any]) -> Iterator[TaskDone[Any, Any]]:
    for one in works:
        yield TaskDone(one, error="no driver")
