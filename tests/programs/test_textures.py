"""Textures and surfaces: what they answer, held to a chip's answers; findings in them; what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

from wmmadiag.programs.textures import as_calls
from wmmadiag.ptx import parse
from wmmadiag.ptx.body import UNSUPPORTED

HERE = Path(__file__).parent


@pytest.mark.subprocess
def test_fetches_are_those_of_a_chip_bit_for_bit(tmp_path: Path) -> None:
    done = run_program(tmp_path, (HERE / "texture_answers.cu").read_text("utf-8"), "--checks", "none")
    assert done.stdout == (HERE / "texture_answers.txt").read_text("utf-8"), done.stderr


FOUND = r"""#include <cstdio>
__global__ void read(cudaTextureObject_t t, float* out) {
  out[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x);
}
__global__ void write(cudaSurfaceObject_t s) {
  surf2Dwrite(1.0f, s, threadIdx.x * 4, 0);
}
int main() {
  auto format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  cudaMallocArray(&array, &format, 32, 1, cudaArraySurfaceLoadStore);
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  cudaCreateSurfaceObject(&surface, &resource);
  float *x, *out;
  cudaMalloc(&x, 128), cudaMalloc(&out, 128);
  cudaResourceDesc plain{};
  plain.resType = cudaResourceTypeLinear;
  plain.res.linear = {x, format, 128};
  cudaTextureDesc how{};
  cudaTextureObject_t texture;
  cudaCreateTextureObject(&texture, &plain, &how, nullptr);
  read<<<1, 32>>>(texture, out);
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  write<<<1, 33>>>(surface);
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


@pytest.mark.subprocess
def test_what_is_wrong_with_a_fetch_is_told_at_its_line(tmp_path: Path) -> None:
    done = run_program(tmp_path, FOUND)
    assert done.stdout == "cudaSuccess\ncudaErrorIllegalAddress\n", done.stderr
    assert "program.cu:3:" in done.stderr and "reads x, which nothing has written" in " ".join(done.stderr.split())
    assert "program.cu:6:" in done.stderr and "0 bytes past the end of array" in " ".join(done.stderr.split())
    assert done.returncode == 1


REFUSED = r"""#include <cstdio>
int main() {
  auto format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  printf("%s\n", cudaGetErrorName(cudaMalloc3DArray(&array, &format, make_cudaExtent(8, 8, 6), cudaArraySparse)));
  format.y = 8;
  printf("%s\n", cudaGetErrorName(cudaMallocArray(&array, &format, 8, 8)));
  format = cudaCreateChannelDesc<unsigned char>();
  cudaMallocArray(&array, &format, 8, 8);
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc how{};
  how.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t texture;
  printf("%s\n", cudaGetErrorName(cudaCreateTextureObject(&texture, &resource, &how, nullptr)));
  unsigned char data[64]{};
  printf("%s\n", cudaGetErrorName(cudaMemcpy2DToArray(array, 0, 1, data, 8, 8, 8, cudaMemcpyHostToDevice)));
}
"""


@pytest.mark.subprocess
def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    done = run_program(tmp_path, REFUSED)
    names = ["NotSupported", "InvalidChannelDescriptor", "InvalidFilterSetting", "InvalidValue"]
    assert done.stdout.split() == [f"cudaError{one}" for one in names], done.stderr
    said = " ".join(done.stderr.split())
    assert "sparse arrays" in said and "leaves the array, of 8 × 8 × 1 elements of 1 bytes" in said
    assert done.returncode == 1


CUBES = r"""#include <cstdio>
#include <vector>
__global__ void faces(cudaTextureObject_t one, cudaTextureObject_t many, float* out) {
  const float3 to[] = {{3, 1, -1}, {-3, 1, -1}, {1, 3, -1}, {1, -3, -1}, {1, -1, 3}, {1, -1, -3}};
  const float3 at = to[threadIdx.x];
  out[threadIdx.x] = texCubemap<float>(one, at.x, at.y, at.z);
  out[6 + threadIdx.x] = texCubemapLayered<float>(many, at.x, at.y, at.z, 1);
}
int main() {
  auto format = cudaCreateChannelDesc<float>();
  cudaTextureObject_t objects[2];
  for (int layers = 1; layers <= 2; layers++) {
    std::vector<float> values(4 * 6 * layers);  // two rows of two: face and layer, then the column, then the row
    for (int i = 0; i < 24 * layers; i++) values[i] = i / 4 * 100 + i % 2 * 10 + i / 2 % 2;
    cudaArray_t array;
    const unsigned flags = cudaArrayCubemap | (layers > 1 ? cudaArrayLayered : 0);
    cudaMalloc3DArray(&array, &format, make_cudaExtent(2, 2, 6 * layers), flags);
    cudaMemcpy3DParms copy{};
    copy.srcPtr = make_cudaPitchedPtr(values.data(), 8, 2, 2);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(2, 2, 6 * layers);
    copy.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&copy);
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how{};
    how.normalizedCoords = 1;
    cudaCreateTextureObject(&objects[layers - 1], &resource, &how, nullptr);
  }
  float *out, got[12];
  cudaMalloc(&out, sizeof got);
  faces<<<1, 6>>>(objects[0], objects[1], out);
  cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost);
  for (float one : got) printf("%g ", one);
  cudaArray_t wrong;
  printf("%s\n", cudaGetErrorName(cudaMalloc3DArray(&wrong, &format, make_cudaExtent(2, 2, 5), cudaArrayCubemap)));
}
"""


@pytest.mark.subprocess
def test_cube_maps_by_the_table_of_their_faces(tmp_path: Path) -> None:
    # s, t of the guide's table, each below or above the middle: (m, s, t) of the six directions
    halves = [(+1, -1), (-1, -1), (+1, -1), (+1, +1), (+1, +1), (-1, +1)]
    inside = [face * 100 + (s > 0) * 10 + (t > 0) for face, (s, t) in enumerate(halves)]
    done = run_program(tmp_path, CUBES)
    expected = [*map(str, inside), *(str(600 + one) for one in inside), "cudaErrorInvalidValue"]
    assert done.stdout.split() == expected, done.stderr


PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 t) {
  .reg .f32 %f<6>; .reg .b64 %rd<2>; .reg .pred %p<2>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [t];
  @!%p1 tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];
  @%p1 sust.b.2d.v2.b32.clamp [%rd1, {%r1, %r1}], {%r1, %r2};
  tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];
  ret;
}
"""


def test_instructions_become_calls_on_their_lines_and_others_stay() -> None:
    text = as_calls(PTX)
    assert text.count("\n") == PTX.count("\n")
    body = parse(text, name="k").functions["k"].instructions
    assert [one.text for one in body if one.op == UNSUPPORTED] == ["tld4.r.2d.v4.f32.f32"]
    assert {one.ptx_line for one in body if one.op == "call"} == {7, 8}
    guards = [(one.guard.negated, one.ptx_line) for one in body if one.op == "bra" and one.guard is not None]
    assert guards == [(False, 7), (True, 8)]
