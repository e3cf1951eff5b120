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


def test_a_constant_that_others_are_made_of_is_agreed_on_by_what_these_are_written_for() -> None:
    source = """#define DEPTH 2
#define COLUMNS (DEPTH * 16)
constexpr int PITCH = COLUMNS + 8;
#define EDGE 3
constexpr int ALONE = EDGE + 1;
__global__ void k(float* out) {
    __shared__ float tile[4 * PITCH];
    tile[threadIdx.x * PITCH + ALONE] = out[threadIdx.x];
    out[threadIdx.x] = tile[threadIdx.x * PITCH];
}
"""
    sharing, texts = Sharing({"k.cu": parse(source, "k.cu")}), {"k.cu": source.encode()}

    def agreed(old: str, new: str) -> bool:
        return sharing.agreed(Change("number", change(edit(texts, old, new)).edits, "static", "constant", ""))

    assert agreed("DEPTH 2", "DEPTH 1")  # named once, by what PITCH is made of, which three places are written for
    assert not agreed("EDGE 3", "EDGE 2")
