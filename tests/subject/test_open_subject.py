"""Cards from sources and PTX, and options laid over a card."""

from __future__ import annotations

from pathlib import Path

import pytest

import wmmadiag
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.drafts.derive import kernel_of
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.open_subject import SubjectOptions, open_subject
from wmmadiag.subject.symbols import rendered_entry, rendered_macros

ROOT = Path(__file__).parents[2]
SOURCE = """
template <typename T, int D> __global__ void attn(const T* Q, const T* K, const T* V, T* O, int S, float scale) {}
template <typename T> __global__ void other(T* x) {}
void go(half* q, half* k, half* v, half* o, int B, int H, int S) {
    attn<half, 64><<<dim3(S / 64, B * H), 128>>>(q, k, v, o, S, 0.125f);
}
"""


def write(folder: Path, text: str, name: str = "k.cu") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_template_arguments_of_the_launch_give_the_types(tmp_path):
    facts = kernel_of(GivenSource(write(tmp_path, SOURCE), SubjectOptions()))
    assert facts.entry == "attn<half, 64>"
    assert [one.dtype for one in facts.parameters] == ["f16"] * 4 + ["s32", "f32"]
    card = open_subject(write(tmp_path, SOURCE), SubjectOptions(computes="attention"))
    assert card.entry == "attn<half, 64>"
    assert bind(card, card.cases[0], card.variants[0]).launch.grid == (1, 1, 1)


def test_an_instantiation_of_the_users_choice(tmp_path):
    facts = kernel_of(GivenSource(write(tmp_path, SOURCE), SubjectOptions(entry="attn<float, 32>")))
    assert facts.parameters[0].dtype == "f32"


def test_a_kernel_in_a_header_that_only_the_include_path_leads_to(tmp_path):
    (tmp_path / "include").mkdir()
    write(tmp_path / "include", "#pragma once\n__global__ void attn(float* Q, int S) {}\n", "attn.cuh")
    source = write(tmp_path, "#include <attn.cuh>\n")
    facts = kernel_of(GivenSource(source, SubjectOptions(include_paths=(tmp_path / "include",))))
    assert facts.entry == "attn" and [one.name for one in facts.parameters] == ["Q", "S"]


@pytest.mark.parametrize(
    ("text", "entry", "message"),
    [
        ("int x;", "", "no kernel"),
        ("__global__ void a() {}\n__global__ void b() {}", "", "several kernels"),
        ("__global__ void a() {}", "b", "no kernel 'b'"),
        (" \n", "", "is empty"),
    ],
)
def test_a_source_without_that_kernel(tmp_path, text, entry, message):
    with pytest.raises(ConfigurationError, match=message):
        kernel_of(GivenSource(write(tmp_path, text), SubjectOptions(entry=entry)))


def test_options_win_over_the_card():
    path = ROOT / "kernels" / "attention" / "kernel.toml"
    card = open_subject(
        path,
        SubjectOptions(
            entry="other",
            grid=("S", "2"),
            block=("64",),
            shared="1024",
            macros={"USE_WMMA": "7", "EXTRA": ""},
            symbols={"S": "48"},
            include_paths=(Path("inc"),),
            std="c++20",
        ),
    )
    for variant in card.variants:
        case = card.case("tail")
        assert rendered_entry(card, case, variant) == "other"
        macros = rendered_macros(card, case, variant)
        assert macros["USE_WMMA"] == "7" and macros["EXTRA"] == "" and macros["HEAD_DIM"] == "64"
        launch = bind(card, case, variant).launch
        assert (launch.grid, launch.block, launch.shared_bytes) == ((48, 2, 1), (64, 1, 1), 1024)
    assert card.include_paths[-1] == Path("inc") and card.std == "c++20"
    assert card.command.endswith(
        "--entry other --grid S,2 --block 64 --shared 1024 --define USE_WMMA=7 --define EXTRA --symbol S=48"
        " --include inc --std c++20"
    )


def test_a_card_alone_stays_as_it_is():
    path = ROOT / "kernels" / "pv" / "kernel.toml"
    card = open_subject(path)
    assert not card.command and card.name == "pv"
    with pytest.raises(ConfigurationError, match="'pv', the option 'gemm'"):
        open_subject(path, SubjectOptions(computes="gemm"))


PLAIN = """
#define TILE 16
#ifndef ROUNDS
#define ROUNDS 1
#endif
__global__ void gemm_kernel(const float* A, const float* B, float* C, int M, int N, int K) {
    int r = blockIdx.y * TILE + threadIdx.y, c = blockIdx.x * TILE + threadIdx.x;
    if (r >= M || c >= N) return;
    float s = 0;
    for (int i = 0; i < ROUNDS; i++)
        for (int k = 0; k < K; k++) s += A[r * K + k] * B[k * N + c];
    C[r * N + c] = s;
}
void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    gemm_kernel<<<dim3((N + TILE - 1) / TILE, (M + TILE - 1) / TILE), dim3(TILE, TILE)>>>(A, B, C, M, N, K);
}
"""


def test_a_symbol_that_a_source_does_not_use_is_refused_with_what_is_meant(tmp_path):
    path = tmp_path / "gemm.cu"
    path.write_text(PLAIN)
    with pytest.raises(ConfigurationError, match="'Kk'") as raised:
        open_subject(path, SubjectOptions(symbols={"Kk": "32"}))
    assert "'K'" in raised.value.hint
    assert {one.symbols["K"] for one in open_subject(path, SubjectOptions(symbols={"K": "32"})).cases} == {32}


def test_a_macro_that_the_source_defines_in_any_case_is_refused(tmp_path):
    path = tmp_path / "gemm.cu"
    path.write_text(PLAIN)
    with pytest.raises(ConfigurationError, match="defines TILE itself") as raised:
        open_subject(path, SubjectOptions(macros={"TILE": "32"}))
    assert raised.value.place.line == 2
    for given in ({"TILE": "16"}, {"ROUNDS": "2"}, {"OTHER": "1"}):
        open_subject(path, SubjectOptions(macros=given))


def test_an_unknown_architecture_is_said_before_anything_is_read(tmp_path):
    with pytest.raises(ConfigurationError, match="unknown architecture 'sm_12'"):
        wmmadiag.check(tmp_path / "nowhere.cu", arch="sm_12")
