from __future__ import annotations

import pytest

from wmmadiag.cli.main import main
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.drafts.derive import drafted_text
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

SOURCE = """
#define TILE 64
struct Params { int n; };
template <typename T, int BLOCK>
__global__ void bias_gelu(const T* x, const float* bias, T* y, T* mean, int rows, int cols, float eps) {}
void run(half* x, float* b, half* y, half* m, int r, int c) {
  dim3 grid((c + TILE - 1) / TILE, r);
  bias_gelu<half, 128><<<grid, 128, c * sizeof(float)>>>(x, b, y, m, r, c, 1e-5f);
}
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "gelu.cu"
    path.write_text(SOURCE)
    return path


def drafted(source, text: str = "") -> str:
    if text:
        source.write_text(text)
    return drafted_text(source, source.with_suffix(".toml"), SubjectOptions(computes="python"))


def test_a_drafted_card_needs_shapes_and_a_function_and_then_runs(source, tmp_path):
    text = drafted(source)
    assert text.count("TODO") == 4, "one shape per pointer"
    card = tmp_path / "gelu.toml"
    for shape in ('["rows", "cols"]', '["cols"]', '["rows", "cols"]', '["rows"]'):
        text = text.replace('["TODO"]', shape, 1)
    card.write_text(text)
    loaded = load_card(card)
    assert loaded.entry == "bias_gelu<half, 128>"
    assert loaded.computes.python == f"{source.stem}_reference.py:reference"
    assert [argument.direction for argument in loaded.arguments[:4]] == ["in", "in", "out", "out"]
    bound = bind(loaded, loaded.cases[0], loaded.variants[0])
    assert (bound.launch.grid, bound.launch.block, bound.launch.shared_bytes) == ((1, 64, 1), (128, 1, 1), 256)
    assert [argument.element.name for argument in loaded.arguments[:4]] == ["f16", "f32", "f16", "f16"]
    assert loaded.tolerance is not None and loaded.tolerance.rtol == pytest.approx(2**-9, rel=0.05)


def test_without_a_launch_grid_and_block_are_to_be_filled_in(source):
    text = drafted(source, "__global__ void k(const float* x, float* y, Params p) {}\n")
    assert 'grid = ["TODO"]' in text and 'block = ["TODO"]' in text
    assert 'fields = [{ dtype = "s32", value = "TODO" }]' in text, "a struct"


def test_a_source_alone_cannot_have_a_python_reference(source):
    with pytest.raises(ConfigurationError, match="needs a card") as raised:
        open_subject(source, SubjectOptions(computes="python"))
    assert "wmmadiag init" in raised.value.hint


def test_the_function_is_drafted_and_one_that_is_there_stays(source, tmp_path, capsys):
    assert main(["init", str(source), "--computes", "python"]) == 0
    beside = tmp_path / f"{source.stem}_reference.py"  # a second kernel's is another file
    written = beside.read_text()
    compile(written, "reference.py", "exec")
    assert "def reference(inputs, symbols):" in written and 'return {"y": …, "mean": …}' in written
    beside.write_text("# mine\n")
    assert main(["init", str(source), "--computes", "python", "--force"]) == 0
    assert "is there already" in capsys.readouterr().out
    assert beside.read_text() == "# mine\n"
