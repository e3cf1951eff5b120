"""Small kernels in a folder of their own, and the command line called in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_kernels import CARD, HANG, RIGHT

from wmmadiag.cli.main import main


@dataclass(frozen=True)
class Answer:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Answer]


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("WMMADIAG_DEBUG", raising=False)
        yield


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str | Path) -> Answer:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with gemm.cu, hang.cu, wrong.cu and cards right.toml and wrong.toml."""
    monkeypatch.chdir(tmp_path)
    Path("gemm.cu").write_text(RIGHT)
    Path("wrong.cu").write_text(RIGHT.replace("0.0f", "1.0f"))
    Path("hang.cu").write_text(HANG)
    Path("right.toml").write_text(CARD.format(name="right", source="gemm.cu", second="two"))
    Path("wrong.toml").write_text(CARD.format(name="wrong", source="wrong.cu", second="other"))
    return tmp_path
