"""Templates that nobody instantiates: which arguments are tried, and that one that is wrong is no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

import wmmadiag
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.instantiated import instantiations
from wmmadiag.subject.drafts.kernel import read_kernel
from wmmadiag.subject.open_subject import SubjectOptions

BARE = Path(__file__).parents[1] / "reading" / "unseen4" / "multistage_bare.cu"
KERNELS = Path(__file__).parents[2] / "kernels"
ASSERTED = 'static_assert(kStages >= 2, "");'
FEW = 'static_assert(kStages == 2 && kK <= 32, "");'
"""Leaves two of the templates that are tried."""


def tried(path, text, operation="gemm"):
    given = GivenSource(path, SubjectOptions(), text)
    return [said for said, _ in instantiations(given, read_kernel(given), operation)]


def test_what_the_code_asserts_and_its_shared_arrays_decide_which_arguments_are_tried():
    found = [dict(part.split(" = ") for part in one.split(", ")) for one in tried(BARE, BARE.read_text())]
    assert found
    for one in found:
        assert one["kM"] == one["kN"] == "64" and int(one["kK"]) % 16 == 0 and int(one["kStages"]) >= 2
        stage = 64 * (int(one["kK"]) + 8) * 2 + int(one["kK"]) * (64 + 8) * 2
        assert stage * int(one["kStages"]) <= 48 * 1024


def test_an_instantiation_is_read_once_for_all_operations(monkeypatch):
    from wmmadiag.subject.drafts import instantiated

    given = GivenSource(BARE, SubjectOptions(), BARE.read_text())
    kernel, read = read_kernel(given), []
    monkeypatch.setattr(
        instantiated, "_read", lambda source, *_: read.append(source.options.entry) or read_kernel(source, kernel.host)
    )
    first, *others = (list(instantiations(given, kernel, one)) for one in ("gemm", "conv2d", "softmax"))
    assert first and len(read) == len({*read})
    for other in others:
        assert all(one is known for said, one in other for told, known in first if told == said)


def test_an_assertion_that_leaves_one_value_leaves_that_one(tmp_path):
    text = BARE.read_text().replace(ASSERTED, 'static_assert(kStages == 3 && kK == 32, "");')
    assert tried(tmp_path / "k.cu", text) == ["kM = 64, kN = 64, kK = 32, kStages = 3"]


def test_a_class_whose_members_the_code_names_is_one_of_the_source():
    path = KERNELS / "gemm" / "kernel.cu"
    assert tried(path, path.read_text()) == [f"T = {one}" for one in ("F16", "BF16", "TF32", "S8", "F64")]


def test_a_template_of_a_template_is_not_guessed(tmp_path):
    text = "template <template <int> class T> __global__ void k(const float* a, float* d) { d[0] = a[T<2>::x]; }"
    assert tried(tmp_path / "k.cu", text) == []


@pytest.mark.slow
def test_a_wrong_template_is_asked_about(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(BARE.read_text().replace("fb[j], acc[i][j]", "fb[i], acc[i][j]").replace(ASSERTED, FEW))
    with pytest.raises(ConfigurationError, match="what are the template arguments kM, kN, kK, kStages") as asked:
        wmmadiag.check(path)
    assert "grid, block" in asked.value.detail  # is open besides


def test_arguments_with_which_it_is_not_right_are_told(tmp_path):
    text = BARE.read_text()
    path = tmp_path / "k.cu"
    # Half of a tile, unless it is 16 deep.
    path.write_text(text.replace("kk < kK; kk += 16", "kk < kK; kk += 32").replace(ASSERTED, FEW))
    report = wmmadiag.check(path)
    assert report.exit_code == 0
    told = " ".join(report.assumed)
    assert "kK = 16" in told and "not right with kM = 64, kN = 64, kK = 32" in told


HOST_TEMPLATE = """
#include <numeric>
template <unsigned WIDTH, typename T>
__global__ void RMSNormKernel(const T* input, const T* weight, T* output, unsigned d, float eps) {
  const T* row = input + blockIdx.x * d;
  __shared__ float sums[32];
  float sum = 0;
  for (unsigned i = threadIdx.x * WIDTH; i < d; i += 32 * WIDTH)
    for (unsigned j = 0; j < WIDTH; ++j) sum += float(row[i + j]) * float(row[i + j]);
  sums[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (unsigned i = 0; i < 32; ++i) sum += sums[i];
  const float scale = rsqrtf(sum / float(d) + eps);
  for (unsigned i = threadIdx.x * WIDTH; i < d; i += 32 * WIDTH)
    for (unsigned j = 0; j < WIDTH; ++j)
      output[blockIdx.x * d + i + j] = T(float(row[i + j]) * scale * float(weight[i + j]));
}
template <typename T>
void rms_norm(const T* input, const T* weight, T* output, unsigned batch_size, unsigned d, float eps = 1e-5) {
  const unsigned width = std::gcd(16 / sizeof(T), d);
  switch (width) {
    case 16: RMSNormKernel<16, T><<<batch_size, 32>>>(input, weight, output, d, eps); break;
    case 8: RMSNormKernel<8, T><<<batch_size, 32>>>(input, weight, output, d, eps); break;
    case 4: RMSNormKernel<4, T><<<batch_size, 32>>>(input, weight, output, d, eps); break;
  }
}
"""


@pytest.mark.parametrize(("wrong", "status"), [("sum / float(d)", "passed"), ("sum / float(d + 1)", None)])
def test_a_launch_in_a_template_of_the_host_is_run_with_the_types_that_are_tried(tmp_path, wrong, status):
    path = tmp_path / "norm.cuh"
    path.write_text(HOST_TEMPLATE.replace("sum / float(d)", wrong))
    if status is None:
        with pytest.raises(ConfigurationError):
            wmmadiag.check(path)
        return
    report = wmmadiag.check(path)
    assert report.status == status
    said = " ".join(report.assumed)
    assert "RMSNormKernel<4, float>" in said and "T = float" in said  # gcd(16 / sizeof(float), d) is 8 for no d


def explicit(tmp_path, *edits):
    text = BARE.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    name = read_kernel(GivenSource(BARE, SubjectOptions(), text)).declared.function.qualified
    head = text[text.index(f"{name}(") + len(name) :]
    path = tmp_path / "k.cu"
    path.write_text(f"{text}\ntemplate __global__ void {name}<64, 64, 16, 2>{head[: head.index('{')]};\n")
    return path


def test_an_instantiation_that_the_source_asks_for_is_taken_and_no_other(tmp_path):
    report = wmmadiag.check(explicit(tmp_path))
    assert report.status == "passed"
    assert any("<64, 64, 16, 2> is what the source asks for" in one for one in report.assumed)
    assert [one.entry for one in report.compiled] and "64, 64, 16, 2" in report.compiled[0].entry


def test_a_wrong_one_that_the_source_asks_for_and_does_not_launch_is_asked_about(tmp_path):
    with pytest.raises(ConfigurationError):
        wmmadiag.check(explicit(tmp_path, ("fb[j], acc[i][j]", "fb[i], acc[i][j]")))
