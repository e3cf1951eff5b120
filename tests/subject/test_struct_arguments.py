"""Structs passed by value."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import wmmadiag
from wmmadiag.compile.driver import compile_source
from wmmadiag.emulator import load
from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import Launch, field_offsets, struct_bytes
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card

CARD = """
format = 1
source = "k.cu"
entry = "mm"
[[arguments]]
role = "a"
dtype = "f16"
[[arguments]]
role = "b"
dtype = "f16"
[[arguments]]
role = "d"
dtype = "f32"
[[arguments]]
name = "p"
FIELDS
[launch]
grid = 1
block = 32
[computes]
operation = "gemm"
[[cases]]
name = "one"
M = 16
N = 32
K = 48
"""


def bound(tmp_path, fields: str) -> bytes:
    (tmp_path / "k.cu").write_text("")
    card = parse_card(CARD.replace("FIELDS", fields), tmp_path / "k.toml")
    launch = bind(card, card.cases[0], card.variants[0]).launch
    assert [len(one) for one in launch.parameters()[:3]] == [1, 1, 1]
    return struct_bytes([launch.arguments[index].tobytes() for index in launch.parameters()[3]])


@pytest.mark.parametrize(
    ("fields", "layout", "values"),
    [
        ("s32 M, s32 N, f32 0.5", "iif", (16, 32, 0.5)),
        ("u8 1, s64 M*N, s16 K", "Bxxxxxxxqhxxxxxx", (1, 512, 48)),
        ("s16 K, f64 1/4, u8 1", "hxxxxxxdBxxxxxxx", (48, 0.25, 1)),
        ("u8 7", "B", (7,)),
    ],
)
def test_fields_lie_as_in_cpp(tmp_path, fields, layout, values):
    tables = (part.split() for part in fields.split(", "))
    text = ", ".join(f'{{ dtype = "{dtype}", value = "{value}" }}' for dtype, value in tables)
    assert bound(tmp_path, f"fields = [{text}]") == struct.pack("<" + layout, *values)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("fields = []", "a struct without fields"),
        ('fields = [{ dtype = "s32" }]', "lacks 'value'"),
        ('fields = [{ dtype = "s32", value = "TODO" }]', "still to be filled in"),
        ('fields = [{ dtype = "s8", value = "1000" }]', "cannot hold"),
        ("fields = 3", "fields"),
        ('fields = [{ role = "c" }]', "dtype"),
        ('fields = [{ role = "x", dtype = "f32" }]', "no role 'x'"),
        (
            'fields = [{ name = "m", dtype = "s32", value = 1 }, { name = "m", dtype = "s32", value = 1 }]',
            "two arguments",
        ),
        ('dtype = "s32"\nfields = [{ dtype = "s8", value = 1 }]', "dtype"),
    ],
)
def test_wrong_fields_are_refused_with_their_line(tmp_path, fields, message):
    with pytest.raises(ConfigurationError, match=message) as raised:
        bound(tmp_path, fields)
    assert raised.value.place is not None and raised.value.place.line > 1


POINTERS = """
struct Params { const int* from; short step; int* to; int count; };
extern "C" __global__ void gather(Params p, int plus) {
    if (threadIdx.x < p.count) p.to[threadIdx.x] = p.from[threadIdx.x * p.step] + plus;
}
"""


def gather(folder):
    (folder / "k.cu").write_text(POINTERS)
    return load(compile_source(folder / "k.cu").ptx)


def test_pointers_in_a_struct_point_to_their_arrays(tmp_path):
    kernel = gather(tmp_path)
    given, taken = np.arange(64, dtype=np.int32), np.zeros(20, np.int32)
    arguments = (given, np.int16(3), taken, np.int32(19), np.int32(100))
    kernel.launch(Launch((1, 1, 1), (32, 1, 1), arguments, structs=((0, 4),)))
    assert list(taken) == [100 + 3 * i for i in range(19)] + [0]


def test_a_struct_of_another_size_is_refused(tmp_path):
    kernel = gather(tmp_path)
    arguments = (np.zeros(4, np.int32), np.int16(3), np.int32(19), np.int32(100))
    with pytest.raises(ConfigurationError, match="16 bytes given for a parameter of 32"):
        kernel.launch(Launch((1, 1, 1), (32, 1, 1), arguments, names=("a", "b", "c", "d"), structs=((0, 3),)))


def test_a_card_puts_tensors_into_a_struct(tmp_path):
    (tmp_path / "k.cu").write_text("")
    head, _, tail = CARD.partition('[[arguments]]\nname = "p"\nFIELDS\n')
    head = head.partition("[[arguments]]")[0]
    fields = ", ".join(f'{{ role = "{role}", dtype = "f16" }}' for role in "abd")
    text = head + f'[[arguments]]\nname = "p"\nfields = [{fields}, {{ dtype = "s32", value = "M" }}]\n' + tail
    card = parse_card(text, tmp_path / "k.toml")
    case = bind(card, card.cases[0], card.variants[0])
    assert case.launch.structs == ((0, 4),)
    assert [one.spec.name for one in case.arguments] == ["p.a", "p.b", "p.d", "p.3"]
    assert case.inputs()["b"].shape == (48, 32)
    assert case.outputs()["d"].shape == (16, 32)


def test_fields_stand_at_multiples_of_their_size():
    assert field_offsets([1, 8, 2]) == ([0, 8, 16], 24)
    assert field_offsets([]) == ([], 0)


ACCESSOR = """
#include <torch/extension.h>
#include <ATen/core/TensorAccessor.h>
template <typename scalar_t>
__global__ void transpose(const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> from,
                          at::PackedTensorAccessor64<scalar_t, 2> to) {
    for (int i = threadIdx.x; i < from.size(0); i += blockDim.x)
        for (int j = 0; j < from.size(1); ++j) to[j][i] = from[i][j];
}
template __global__ void transpose<float>(
    const torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits>, at::PackedTensorAccessor64<float, 2>);
"""


def test_accessors_of_tensors_are_structs(tmp_path):
    (tmp_path / "k.cu").write_text(ACCESSOR)
    kernel = load(compile_source(tmp_path / "k.cu").ptx)
    given, taken = np.arange(6 * 9, dtype=np.float32).reshape(6, 9), np.zeros((9, 6), np.float32)
    of_int = [np.int32(one) for one in (6, 9, 9, 1)]
    of_long = [np.int64(one) for one in (9, 6, 6, 1)]
    kernel.launch(Launch((1, 1, 1), (32, 1, 1), (given, *of_int, taken, *of_long), structs=((0, 5), (5, 5))))
    assert np.array_equal(taken, given.T)


SHARED_STRUCT = """
#include <cuda_fp16.h>
struct Params { const float* x; float* y; const int* order; float* sums; int rows; int cols; };
__global__ void row_sums(Params p) {
  float sum = 0.f;
  for (int i = 0; i < p.cols; ++i) sum += p.x[(size_t)blockIdx.x * p.cols + i];
  if (threadIdx.x == 0) p.sums[p.order[blockIdx.x]] = sum;
}
__global__ void softmax_rows(Params p) {
  const float* row = p.x + (size_t)blockIdx.x * p.cols;
  float most = -INFINITY, sum = 0.f;
  for (int i = 0; i < p.cols; ++i) most = fmaxf(most, row[i]);
  for (int i = 0; i < p.cols; ++i) sum += expf(row[i] - most);
  for (int i = threadIdx.x; i < p.cols; i += blockDim.x)
    p.y[(size_t)blockIdx.x * p.cols + i] = expf(row[i] - most) / sum;
}
void launch(Params p) {
  row_sums<<<p.rows, 32>>>(p);
  softmax_rows<<<p.rows, 32>>>(p);
}
"""


def test_a_kernel_is_not_asked_about_members_that_another_one_reads(tmp_path):
    path = tmp_path / "rows.cu"
    path.write_text(SHARED_STRUCT)
    report = wmmadiag.check(path, entry="softmax_rows")
    assert report.status == "passed"
    assert any(one.startswith("order, sums of its struct") for one in report.assumed)
