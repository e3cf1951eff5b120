"""Constants that several places are written for."""

from __future__ import annotations

from trial_changes import change, edit

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.sharing import Sharing

SOURCE = """#define PAD 8
constexpr int STAGES = 2;
__global__ void k(float* out, int n) {
    __shared__ float ring[STAGES][16 + PAD];
    for (int t = 0; t < n; ++t) ring[t % STAGES][threadIdx.x] = out[t];
    out[n % STAGES] = ring[0][0];
}
"""
TEXTS = {"k.cu": SOURCE.encode()}
SHARING = Sharing({"k.cu": parse(SOURCE, "k.cu")})


def at(old: str, new: str, role: str) -> Change:
    made = change(edit(TEXTS, old, new))
    return Change("number", made.edits, "static", role, "")


def test_uses_of_what_a_change_gives_its_value() -> None:
    assert SHARING.uses(at("2;", "1;", "constant")) == 3
    assert SHARING.uses(at("8\n", "4\n", "constant")) == 1
    assert SHARING.uses(at("[t % STAGES]", "[0]", "index")) is None


def test_a_constant_that_several_places_are_written_for_is_agreed_on() -> None:
    assert SHARING.agreed(at("2;", "1;", "constant"))
    assert not SHARING.agreed(at("8\n", "4\n", "constant"))
    assert not SHARING.agreed(at("t < n", "t < 1", "loop bound"))
