from __future__ import annotations

import numpy as np
import pytest
from small_kernels import RIGHT

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.drafts.derive import drafted_text
from wmmadiag.subject.drafts.guess import DraftParameter, roles_for, symbol_for, value_for
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

SOURCE = """
#define BM 64
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
template <int D, typename T>
__global__ void attn(const T* Q, const T* K, const T* V, T* O, int B, int H, int len, float sc, int tiles) {}
void launch(half* dq, half* dk, half* dv, half* out, int batch, int nheads, int n) {
  dim3 grid(CEIL_DIV(n, BM), batch * nheads);
  const int tiles = CEIL_DIV(n, BM);
  attn<32, half><<<grid, 128, 2 * BM * 32 * sizeof(half)>>>(dq, dk, dv, out, batch, nheads, n, 0.125f, tiles);
}
"""


def pointer(name, const=True, dtype="f16"):
    return DraftParameter(name, "half", True, const, dtype)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "my_kernel.cu"
    path.write_text(SOURCE)
    return path


def test_a_card_from_the_source_alone(source):
    card = open_subject(source, SubjectOptions(computes="attention"))
    assert card.entry == "attn<32, half>"
    assert [v.role for a in card.arguments for v in a.views] == ["q", "k", "v", "o"]
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert (bound.launch.grid, bound.launch.block, bound.launch.shared_bytes) == ((2, 6, 1), (128, 1, 1), 8192)
    assert bound.symbols["D"] == 32
    assert [int(a) for a in bound.launch.arguments[4:7]] == [2, 3, 128]
    assert float(bound.launch.arguments[7]) == 0.125 == bound.parameters["scale"], "what the host passes"
    assert int(bound.launch.arguments[8]) == 2
    assert card.command == f"wmmadiag check {source} --entry 'attn<32, half>' --computes attention"


def test_options_replace_what_the_source_does_not_say(source):
    source.write_text(SOURCE.partition("void launch")[0].replace(", int tiles", ""))
    options = {"grid": ("ceil_div(S, 64)", "B*H"), "block": ("256",), "shared": "1024", "symbols": {"S": "96"}}
    card = open_subject(source, SubjectOptions(entry="attn<32, half>", computes="attention", **options))
    bound = bind(card, card.cases[0], card.variants[0])
    assert (bound.launch.grid, bound.launch.block, bound.launch.shared_bytes) == ((2, 1, 1), (256, 1, 1), 1024)
    assert "--grid 'ceil_div(S, 64),B*H' --block 256 --shared 1024 --symbol S=96" in card.command


def test_what_cannot_be_derived_is_said(source):
    kernel = SOURCE.partition("void launch")[0].replace(", int tiles", "")
    source.write_text(
        kernel.replace("float sc", "float sc, Strange* mystery, int mode").replace("{}", "{ O[mode] = Q[0]; }")
    )
    with pytest.raises(ConfigurationError) as caught:
        open_subject(source, SubjectOptions(computes="attention"))
    text = str(caught.value)
    for part in ("role of 'mystery'", "dtype of 'mystery'", "value of 'mode'", "grid", "block", "wmmadiag init"):
        assert part in text
    source.write_text(kernel)
    with pytest.raises(ConfigurationError, match="give --grid … --block …"):
        open_subject(source, SubjectOptions(entry="attn<32,half>", computes="attention"))
    with pytest.raises(ConfigurationError, match="did you mean 'attention'"):
        open_subject(source, SubjectOptions(computes="attenton"))


def test_a_draft_loads_or_says_what_to_fill_in(source):
    def drafted():
        return drafted_text(source, source.with_suffix(".toml"), SubjectOptions(computes="attention"))

    card = parse_card(drafted(), source.parent / "kernel.toml")
    assert len(card.arguments) == 9
    unsaid = SOURCE.replace(", int tiles) {}", ", int mode) { O[mode] = Q[0]; }").replace("tiles);", "strange());")
    source.write_text(unsaid)
    todo = drafted()
    assert "#   the value of 'mode'" in todo
    with pytest.raises(ConfigurationError, match="still to be filled in"):
        parse_card(todo, source.parent / "kernel.toml")


@pytest.mark.parametrize(("names", "roles"), [
    (["Q", "K", "V", "O"], ["q", "k", "v", "o"]), (["d_q", "d_k", "d_v", "d_out"], ["q", "k", "v", "o"]),
    (["query", "key", "value", "output"], ["q", "k", "v", "o"]), (["a", "b", "c", "r"], ["q", "k", "v", "o"]),
    (["out", "q_ptr", "k_ptr", "v_ptr"], ["o", "q", "k", "v"]), (["qkv", "out"], ["qkv", "o"]),
    (["Q", "K", "V", "O", "L"], ["q", "k", "v", "o", "lse"]), (["Q", "K", "V", "O", "tmp"], ["q", "k", "v", "o", None]),
])  # fmt: skip
def test_roles_by_name_and_order(names, roles):
    assert roles_for([pointer(name, False) for name in names], "attention") == roles


def test_roles_by_constness():
    unnamed = [pointer("r", False), pointer("x"), pointer("y"), pointer("z")]
    assert roles_for(unnamed, "attention") == ["o", "q", "k", "v"]
    assert roles_for([pointer("A"), pointer("B"), pointer("C", False)], "gemm") == ["a", "b", "d"]
    named = [pointer("input"), pointer("mat1"), pointer("mat2"), pointer("out", False)]
    assert roles_for(named, "gemm") == [None, "a", "b", "d"]  # any operand may be called an input
    assert roles_for([pointer("A"), pointer("B"), pointer("C"), pointer("D", False)], "gemm") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("name", "operation", "symbol"), [
    ("seq_len", "attention", "S"), ("N", "attention", "S"), ("N", "gemm", "N"), ("head_dim", "attention", "D"),
    ("num_kv_heads", "attention", "Hkv"), ("kv_len", "attention", "Skv"), ("BH", "attention", "B*H"),
    ("foo", "attention", None),
])  # fmt: skip
def test_symbols_by_name(name, operation, symbol):
    assert symbol_for(name, operation) == symbol


def test_values_by_name():
    assert value_for("softmax_scale", "attention") == "1/sqrt(D)"
    assert value_for("is_causal", "attention") == "causal"
    assert value_for("ldb", "gemm") == "K if transpose_b else N"
    assert value_for("other", "gemm") is None


WORKSPACES = """
__global__ void fwd(const float* Q, const float* K, const float* V, int N, int d, int Tc, float* l,
                    float* m, float* O) {}
torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
  const int B = Q.size(0); const int nh = Q.size(1); const int N = Q.size(2); const int d = Q.size(3);
  const int Tc = ceil((float) N / 32);
  auto O = torch::zeros_like(Q);
  auto l = torch::zeros({B, nh, N});
  auto m = torch::full({B, nh, N}, -INFINITY);
  dim3 grid(B, nh); dim3 block(32);
  fwd<<<grid, block, 3 * 32 * d * sizeof(float)>>>(Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(), N, d,
      Tc, l.data_ptr<float>(), m.data_ptr<float>(), O.data_ptr<float>());
}
"""


def test_workspaces_and_initial_values_come_from_host_code(tmp_path):
    path = tmp_path / "fwd.cu"
    path.write_text(WORKSPACES)
    card = open_subject(path, SubjectOptions(computes="attention"))
    bound = bind(card, card.case("tiles"), card.variants[0])
    running_sum, running_max, out = (bound.arguments[i] for i in (6, 7, 8))
    assert running_sum.spec.direction == "workspace"
    assert running_sum.storage.shape == (2 * 3 * 128,)
    assert (running_sum.storage == 0).all()
    assert np.isneginf(running_max.storage).all()
    assert (out.storage == 0).all()
    assert bound.launch.grid == (2, 3, 1)
    assert bound.launch.shared_bytes == 3 * 32 * 64 * 4
    assert int(bound.launch.arguments[5]) == 4


TEMPLATED = """
template <int HEAD_DIM, int BLOCK, bool CAUSAL, typename T>
__global__ void __launch_bounds__(BLOCK) attn(T* out, const T* q, const T* k, const T* v, int heads, int q_len,
                                              int kv_len, float sm_scale) {}
template <int D, typename T>
void launch(T* o, T* q, T* k, T* v, int b, int h, int lq, int lk, float sc, cudaStream_t st) {
  constexpr int NT = 64;
  dim3 g((lq + NT - 1) / NT, b * h);
  attn<D, NT, true, T><<<g, NT, 0, st>>>(o, q, k, v, h, lq, lk, sc);
}
"""


def templated(tmp_path, more, entry="attn"):
    path = tmp_path / "templated.cu"
    path.write_text(TEMPLATED + more)
    return open_subject(path, SubjectOptions(entry=entry, computes="attention"))


def test_template_arguments_come_from_the_launchers_caller(tmp_path):
    card = templated(tmp_path, "int main() { launch<32, half>(0, 0, 0, 0, 1, 1, 64, 64, 1.f, 0); }\n")
    assert card.entry == "attn<32, 64, true, half>"
    assert card.arguments[0].element.name == "f16"
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert (bound.symbols["D"], bound.parameters["causal"]) == (32, True)
    assert (bound.launch.grid, bound.launch.block) == ((2, 3, 1), (64, 1, 1))


def test_open_template_arguments_become_symbols_or_are_asked_for(tmp_path):
    with pytest.raises(ConfigurationError, match=r"what are the template arguments T\?") as caught:
        templated(tmp_path, "")
    assert "attn<{D}, 64, true, T>" in str(caught.value) and "the dtype of 'out'" in caught.value.detail


def test_an_entry_that_the_user_instantiates(tmp_path):
    card = templated(tmp_path, "", "attn<128,64,false,__nv_bfloat16>")
    assert card.arguments[1].element.name == "bf16"
    assert bind(card, card.cases[0], card.variants[0]).symbols["D"] == 128


def test_a_host_name_passed_for_several_extents_makes_them_one(tmp_path):
    path = tmp_path / "gemm.cu"
    path.write_text(
        "#include <cuda_fp16.h>\n"
        "__global__ void mm(half* a, half* b, float* c, int m_total, int n_total, int k_total) {}\n"
        "int main() { int SIDE = 4096; mm<<<SIDE / 16, 32>>>(pa, pb, pc, SIDE, SIDE, SIDE); }\n"
    )
    card = open_subject(path, SubjectOptions(computes="gemm"))
    for case in card.cases:
        bound = bind(card, case, card.variants[0])
        sizes = [int(a) for a in bound.launch.arguments[3:]]
        assert len(set(sizes)) == 1 and bound.launch.grid == (sizes[0] // 16, 1, 1)
    assert sizes[0] < 4096


def test_scales_of_rows_and_columns_are_known_by_their_names():
    names = [pointer("x"), pointer("w"), pointer("x_scale"), pointer("w_scale"), pointer("out", False)]
    assert roles_for(names, "gemm") == ["a", "b", "scale_a", "scale_b", "d"]


SCORES = """
__global__ void attn(const half* q, const half* k, const half* v, %s* attn_mask, const float* alibi_slopes,
                     const int* seqlens_k, half* o, int B, int H, int S, int D, float softcap, int window_size) {
  if (B + H + S + D > window_size * softcap) o[0] = q[seqlens_k[0]];
}
void launch(half* a, float* f, int* n, int b, int h, int s, int d) {
  attn<<<dim3(s / 64, b * h), 128>>>(a, a, a, n, f, n, a, b, h, s, d, 20.0f, 32);
}
"""


@pytest.mark.parametrize(("dtype", "role"), [("half", "bias"), ("float", "bias"), ("int", "mask"), ("bool", "mask")])
def test_terms_of_scores_are_drafted_and_what_their_names_leave_open_is_asked(tmp_path, dtype, role):
    path = tmp_path / "attn.cu"
    path.write_text(SCORES % dtype)
    text = drafted_text(path, path.with_suffix(".toml"), SubjectOptions(computes="attention"))
    with pytest.raises(ConfigurationError, match="layout of 'attn_mask' is still to be filled in"):
        parse_card(text, tmp_path / "attn.toml")
    open_ = [line for line in text.splitlines() if line.startswith("#   ")]
    told = ("the layout of 'attn_mask'", "the role of 'seqlens_k'", "the value of 'window_size'")
    assert all(any(what in line for line in open_) for what in told)
    assert any("the meaning of 'attn_mask'" in line for line in open_) == (role == "mask")
    text = text.replace('layout = "TODO"', 'layout = "BSK"').replace('value = "TODO"', "value = 32")
    card = parse_card(text, tmp_path / "attn.toml")
    roles = [view.role for one in card.arguments for view in one.views]
    assert roles == ["q", "k", "v", role, "alibi_slopes", "lengths", "o"]
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert bound.parameters["softcap"] == 1.5
    assert bound.inputs()[role].shape == (2, 1, 128, 128)
    assert bound.inputs()["alibi_slopes"].shape == (1, 3)
    lengths = bound.inputs()["lengths"]
    assert ((lengths >= 1) & (lengths < 128)).all() and lengths[0] != lengths[1]


def test_a_symbol_of_an_option_that_nothing_knows_is_told_as_that(tmp_path):
    path = tmp_path / "gemm.cu"
    path.write_text(RIGHT)
    with pytest.raises(ConfigurationError, match=r"what is the value of `Q`\?\n  it stands in --grid"):
        open_subject(path, SubjectOptions(grid=("N // 16", "Q // 16"), block=("32",)))
