"""The corpus of wrong kernels: each fails, its truth file is about the source beside it, and the fix mends it.

Look-alikes do what a wrong kernel seems to do, and are right.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from wmmadiag import api
from wmmadiag.diagnose.names import every_name
from wmmadiag.results.model import CaseResult
from wmmadiag.subject.card_files.read import load_card

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

KERNELS = Path(__file__).parents[2] / "kernels"
TRUTHS = sorted(KERNELS.glob("*/wrong/*.truth.toml"))
WRONG_CARDS = [path.with_name(path.name.replace(".truth.toml", ".toml")) for path in TRUTHS]
LOOKALIKES = sorted(KERNELS.glob("*/lookalike/*.toml"))

CAUSES = frozenset(one.id for one in every_name())
FAILING = frozenset({"failed", "undecided", "error"})
LARGE = "batched"  # seconds, not a test's business


def _ident(path: Path) -> str:
    return f"{path.parent.parent.name}-{path.name.partition('.')[0]}"


def _results(card: Path, cases: list[str] | None = None) -> tuple[CaseResult, ...]:
    loaded = load_card(card)
    return api.check(loaded, cases=cases or _cases(card), checks="all").cases


def _cases(card: Path) -> list[str]:
    return [case.name for case in load_card(card).cases if case.name != LARGE]


def _truth(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _source(truth: Path) -> str:
    return truth.with_name(truth.name.replace(".truth.toml", ".cu")).read_text(encoding="utf-8")


def _mended_cards() -> dict[str, tuple[str, str, list[str]]]:
    """Mended kernels: what they mend → (source, card without cases, cases).

    Many wrong kernels come from one right one: those that come out the same, and are launched the same, are one here.
    """
    groups: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for path, card in zip(TRUTHS, WRONG_CARDS, strict=True):
        source = _source(path)
        for fix in _truth(path)["fix"]:
            source = source.replace(fix["old"], fix["new"])
        head, *cases = card.read_text(encoding="utf-8").split("[[cases]]\n")
        own = ("#", f'name = "{path.parts[-3]}, wrong', "source =")
        kept = [line for line in head.splitlines() if not line.startswith(own)]
        names, found = groups.setdefault((source, "\n".join(kept)), ([], []))
        names.append(_ident(card))
        for case in cases:
            body = case.partition("\n")[2]  # without its name
            if LARGE not in case and body.strip() not in found:
                found.append(body.strip())
    return {names[0]: (source, head, cases) for (source, head), (names, cases) in groups.items()}


MENDED = _mended_cards()


def test_every_wrong_source_has_a_card_and_its_truth() -> None:
    for folder in KERNELS.glob("*/wrong"):
        sources = sorted(path.stem for path in folder.glob("*.cu"))
        assert sources == sorted(path.name.removesuffix(".truth.toml") for path in folder.glob("*.truth.toml"))
        assert all((folder / f"{name}.toml").is_file() for name in sources)


@pytest.mark.parametrize("path", TRUTHS, ids=_ident)
def test_truth_is_about_its_source(path: Path) -> None:
    truth, source = _truth(path), _source(path)
    lines = source.splitlines()
    assert set(truth) - {"second"} == {"cause", "lines", "class", "one_edit", "summary", "fix"}
    second = truth.get("second", {"cause": truth["cause"], "lines": truth["lines"]})
    assert {truth["cause"], second["cause"]} <= CAUSES
    for named in (truth["lines"], second["lines"]):
        assert named
        assert all(0 < line <= len(lines) and lines[line - 1].strip() for line in named)
    assert 0 <= truth["class"] <= 41
    assert isinstance(truth["one_edit"], bool)
    assert truth["summary"]
    assert truth["fix"]
    for fix in truth["fix"]:
        assert source.count(fix["old"]) == 1, f"not once in the source: {fix['old']!r}"
        source = source.replace(fix["old"], fix["new"])


@pytest.mark.parametrize("card", WRONG_CARDS, ids=_ident)
@pytest.mark.corpus
def test_wrong_kernel_fails(card: Path) -> None:
    """In some case: the rest is not run."""
    assert any(FAILING & {result.status for result in _results(card, [case])} for case in _cases(card))


@pytest.mark.parametrize("name", MENDED)
@pytest.mark.corpus
def test_mended_kernel_passes(name: str, tmp_path: Path) -> None:
    source, head, cases = MENDED[name]
    card = tmp_path / "mended.toml"
    tables = [f'[[cases]]\nname = "case {number}"\n{case}\n' for number, case in enumerate(cases)]
    text = "\n".join(['name = "mended"', 'source = "mended.cu"', head, *tables])
    card.write_text(text, encoding="utf-8")
    (tmp_path / "mended.cu").write_text(source, encoding="utf-8")
    results = _results(card)
    assert len(results) == len(cases)
    assert [(result.status, result.problem) for result in results] == [("passed", None)] * len(cases)


@pytest.mark.parametrize("card", LOOKALIKES, ids=_ident)
@pytest.mark.corpus
def test_lookalike_passes(card: Path) -> None:
    for result in _results(card):
        assert (result.status, result.problem) == ("passed", None), result.case
        assert not [finding for finding in result.findings if finding.level == "error"]
