"""NVRTC is not asked again for what it compiled last, where somebody says that nothing on the disk changes."""

from __future__ import annotations

import pytest

from wmmadiag.compile import nvrtc

RIGHT, WRONG = "__global__ void k(int* a) { *a = 1; }", "__global__ void k() { bananas; }"
OPTIONS = ["-arch=compute_80"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The texts that NVRTC itself was given."""
    texts: list[object] = []
    own = nvrtc._compiled

    def counted(*given: object) -> nvrtc.NvrtcResult:
        texts.append(given[0])
        return own(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(nvrtc, "_compiled", counted)
    return texts


def test_the_last_text_is_compiled_once(asked: list[object]) -> None:
    with nvrtc.asked_once():
        first = nvrtc.run_nvrtc(RIGHT, "k.cu", OPTIONS)
        assert nvrtc.run_nvrtc(RIGHT, "k.cu", OPTIONS) == first
        assert len(asked) == 1
        for other in (
            nvrtc.run_nvrtc(RIGHT, "other.cu", OPTIONS),
            nvrtc.run_nvrtc(RIGHT, "other.cu", ["-arch=compute_90"]),
            nvrtc.run_nvrtc(RIGHT, "other.cu", ["-arch=compute_90"], headers={"a.h": b""}),
            nvrtc.run_nvrtc(RIGHT, "other.cu", ["-arch=compute_90"], headers={"a.h": b" "}),
        ):
            assert other.ok
        assert len(asked) == 5


def test_a_refusal_is_asked_for_again_and_so_is_everything_elsewhere(asked: list[object]) -> None:
    with nvrtc.asked_once():
        assert not nvrtc.run_nvrtc(WRONG, "k.cu", OPTIONS).ok
        assert not nvrtc.run_nvrtc(WRONG, "k.cu", OPTIONS).ok
        nvrtc.run_nvrtc(RIGHT, "k.cu", OPTIONS)
    nvrtc.run_nvrtc(RIGHT, "k.cu", OPTIONS)
    nvrtc.run_nvrtc(RIGHT, "k.cu", OPTIONS)
    assert len(asked) == 5
