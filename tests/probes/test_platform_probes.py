"""Each platform probe's conclusion on four architectures, and a machine that computes otherwise is noticed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from probes_page import page

from wmmadiag.errors import ConfigurationError, KernelFault, UnsupportedError
from wmmadiag.probes import registry
from wmmadiag.probes.answer import Answered, ProbeAnswer, exit_code
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe, all_probes, ask, select
from wmmadiag.probes.run import ALL_ARCHES, arches_of, ask_all
from wmmadiag.probes.shapes import across, forms

ROOT = Path(__file__).parents[2]
ARCHES = ("sm_75", "sm_80", "sm_89", "sm_90")


@cache
def answered(name: str, arch: str) -> Answered:
    return ask(all_probes()[name], Platform(arch))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", all_probes())
@pytest.mark.corpus
def test_each_probe_answers_as_documented(name: str, arch: str) -> None:
    answer = answered(name, arch).answer
    assert answer.verdict == "right", answer
    assert 1 <= len(answer.lines) <= 2 and all(answer.lines)
    assert answer.data and json.loads(json.dumps(answer.data)) == answer.data


WORDS = {
    ("accumulation", "sm_90"): "only the last k-step survives (64)",
    ("async-copy", "sm_75"): "has no cp.async",
    ("async-copy", "sm_80"): "4, 8 or 16 bytes (.ca) or 16 (.cg)",
    ("coverage", "sm_90"): "4 warps compute 4 of 8 tiles",
    ("fragment-map", "sm_75"): "all 21 fragments are the known ones",
    ("fragment-map", "sm_80"): "all 29 fragments are the known ones",
    ("half-sum", "sm_89"): "stops counting ones at 2048",
    ("layouts", "sm_90"): "col_major X[k·ldm + i]",
    ("pointers", "sm_90"): "a cast is not the fault",
    ("product", "sm_90"): "test Q·Kᵀ with identity × random",
    ("shapes", "sm_75"): "15 of 28 combinations",
    ("shapes", "sm_90"): "20 of 28 combinations",
    ("shared-memory", "sm_89"): "101,376 bytes",
    ("shared-memory", "sm_90"): "232,448 bytes",
    ("store", "sm_90"): "local array the launch dies",
    ("swizzle", "sm_90"): "with none 128",
    ("transpose", "sm_90"): "the other two combinations are Q·K",
}


@pytest.mark.parametrize(("name", "arch"), WORDS)
def test_conclusions_in_words(name: str, arch: str) -> None:
    assert WORDS[name, arch] in " ".join(answered(name, arch).answer.lines)


def test_identity_alone_does_not_tell_the_transpose() -> None:
    data = answered("product", "sm_80").answer.data
    assert not data["identity × identity"]["the two differ"] and data["identity × random"]["the two differ"]


def test_misaligned_loads_die_in_shared_memory_and_not_in_global() -> None:
    data = answered("layouts", "sm_90").answer.data
    assert data["row_major, shared, ldm of 34 bytes"] == "misaligned"
    assert data["row_major, global, ldm of 34 bytes"][:3] == [0, 16, 32]
    assert data["col_major, shared, too small"][:4] == [0, 8, 16, 24]


@pytest.mark.parametrize("name", all_probes())
def test_a_machine_that_does_nothing_is_never_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Platform, "run", lambda *arguments, **options: "")
    assert ask(all_probes()[name], Platform("sm_90")).answer.verdict == "wrong"


@pytest.mark.parametrize("name", sorted(set(all_probes()) - {"shapes", "fragment-map"}))
def test_a_machine_that_disturbs_results_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Platform.run

    def disturbed(self: Platform, source: str, entry: str, arguments: list, **options: object) -> str:
        before = [np.array(one) for one in arguments]
        fault = run(self, source, entry, arguments, **options)
        for one, old in zip(arguments, before, strict=True):
            if isinstance(one, np.ndarray) and not np.array_equal(one, old, equal_nan=one.dtype.kind == "f"):
                one.reshape(-1)[:] = np.roll(one.reshape(-1), 1) if one.size > 1 else one.reshape(-1) + 1
        return fault

    monkeypatch.setattr(Platform, "run", disturbed)
    assert ask(all_probes()[name], Platform("sm_90")).answer.verdict == "wrong"


def test_what_cannot_be_asked_is_undecided_and_says_why() -> None:
    def refuse(_: Platform) -> ProbeAnswer:
        raise UnsupportedError("no such instruction", hint="do without")

    def die(_: Platform) -> ProbeAnswer:
        raise KernelFault("it died", kind="trap")

    for run, verdict in ((refuse, "undecided"), (die, "wrong")):
        one = ask(Probe("x", "?", "x.cu", run), Platform("sm_90"))
        assert one.answer.verdict == verdict and "cannot be asked of sm_90" in one.answer.lines[0]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [((), 0), (("right",), 0), (("right", "undecided"), 3), (("undecided", "wrong"), 1), (("wrong", "right"), 1)],
)
def test_exit_codes(verdicts: tuple[str, ...], code: int) -> None:
    answers = [Answered("x", "sm_90", "emulator", 0.0, ProbeAnswer(verdict, ("",))) for verdict in verdicts]
    assert exit_code(answers) == code


def test_the_table_has_a_row_per_form_and_a_column_per_architecture() -> None:
    lines = across([answered("shapes", arch) for arch in ARCHES]).splitlines()
    assert lines[0].split()[-4:] == ["75", "80", "89", "90"] and len(lines) == len(forms()) + 2
    rows = {line.rsplit(None, 4)[0]: line.split()[-4:] for line in lines[1:-1]}
    assert rows["m16n16k16 bf16 f32"] == ["-", "yes", "yes", "yes"]
    assert rows["m16n16k16 f16 f32"] == ["yes"] * 4 and rows["m16n8k16 f16 f32"] == ["-"] * 4


def test_architectures_by_name() -> None:
    shapes, product = select(["shapes", "product"])
    assert arches_of("", "emulator", [shapes]) == arches_of("all", "emulator") == ALL_ARCHES
    assert arches_of("", "emulator", [shapes, product]) == ("sm_90",)
    assert arches_of("sm_80, 89,sm_80", "emulator") == ("sm_80", "sm_89")
    with pytest.raises(UnsupportedError):
        arches_of("sm_12345", "emulator")
    with pytest.raises(ConfigurationError):
        arches_of(",", "emulator")


def test_all_answers_come_in_order() -> None:
    probes = select(["transpose", "coverage"])
    answers, unknown = ask_all(probes, ["sm_80", "sm_90"], Platform("sm_80"))
    assert [(one.probe, one.arch) for one in answers] == [
        ("transpose", "sm_80"), ("transpose", "sm_90"), ("coverage", "sm_80"), ("coverage", "sm_90"),
    ]  # fmt: skip
    assert not unknown


def test_unknown_probes_are_named() -> None:
    with pytest.raises(ConfigurationError, match="there is no probe 'layout'") as error:
        select(["layout"])
    assert error.value.hint == "did you mean 'layouts'?"


def test_a_module_and_its_probe_have_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from wmmadiag.probes import store

    monkeypatch.setattr(store, "PROBE", Probe("shop", "?", "store.cu", store.run))
    with pytest.raises(TypeError, match="the probe is called 'shop'"):
        registry.probe_modules()


def test_every_source_has_a_probe() -> None:
    assert {path.name for path in (ROOT / "probes").glob("*.cu")} == {probe.source for probe in all_probes().values()}


def test_the_documentation_is_current() -> None:
    assert (ROOT / "docs/probes.md").read_text("utf-8") == page(), "run python scripts/pages"
