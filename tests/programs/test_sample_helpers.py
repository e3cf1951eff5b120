"""Headers that programs in the style of the CUDA samples include where they are not there; what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

HELPED = r"""#include <stdio.h>
#include <helper_cuda.h>
#include <helper_functions.h>
#include "helper_math.h"
__global__ void turn(float3* a, float4* b, int2* c) {
    const int i = threadIdx.x;
    const float3 d = a[i] - make_float3(1.0f, 0, 0);
    b[i] = make_float4(normalize(d) * 2.0f, length(d));
    b[i] += make_float4(1.f);
    c[i] = make_int2(3, i) * 2 - make_int2(1);
    a[i] = lerp(cross(make_float3(1, 0, 0), make_float3(0, 1, 0)), clamp(d, 0.f, 1.f), 0.5f);
}
int main(int argc, char** argv) {
    const char** words = (const char**)argv;
    printf("device %d\n", findCudaDevice(argc, words));
    float3* a;
    float4* b;
    int2* c;
    checkCudaErrors(cudaMallocManaged(&a, 32 * sizeof(float3)));
    checkCudaErrors(cudaMallocManaged(&b, 32 * sizeof(float4)));
    checkCudaErrors(cudaMallocManaged(&c, 32 * sizeof(int2)));
    for (int i = 0; i < 32; i++) a[i] = make_float3(i, 3, 4);
    const float3 h = a[2] + make_float3(1.0f);
    printf("%g %g\n", h.x, dot(h, h));
    turn<<<1, 32>>>(a, b, c);
    getLastCudaError("turn");
    checkCudaErrors(cudaDeviceSynchronize());
    printf("%g %g %d %d %g %g\n", b[1].x, b[1].w, c[5].x, c[5].y, a[1].z, a[3].y);
    StopWatchInterface* timer = nullptr;
    sdkCreateTimer(&timer), sdkStartTimer(&timer), sdkStopTimer(&timer);
    printf("%d\n", sdkGetTimerValue(&timer) >= 0);
    sdkDeleteTimer(&timer);
    char* name = nullptr;
    float scale = 0;
    printf("%d %d %d\n", checkCmdLineFlag(argc, words, "n"), checkCmdLineFlag(argc, words, "m"),
           getCmdLineArgumentInt(argc, words, "n="));
    printf("%d ", getCmdLineArgumentString(argc, words, "name", &name));
    printf("%s %d ", name, getCmdLineArgumentValue(argc, words, "scale", &scale));
    printf("%g\n", scale);
    checkCudaErrors(cudaMalloc(&a, 1ull << 50));
}
"""


@pytest.mark.slow
def test_the_helpers_of_the_samples_are_there(tmp_path: Path) -> None:
    done = run_program(tmp_path, HELPED, "--", "--n=12", "-name=hi", "--scale=2.5")
    assert done.stdout == (
        'GPU Device 0: "Hopper" with compute capability 9.0\n\ndevice 0\n3 50\n1 6 5 9 1 0.5\n1\n1 0 12\n1 hi 1 2.5\n'
    ), done.stderr
    assert 'CUDA error at program.cu:40 code=2(cudaErrorMemoryAllocation) "cudaMalloc(&a, 1ull << 50)"' in done.stderr
    assert done.returncode == 1


def test_the_programs_own_helpers_come_first(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "helper_cuda.h").write_text("#define mine 5\n")
    done = run_program(tmp_path, "#include <helper_cuda.h>\nint main() { return mine; }\n", "-I", "common")
    assert done.returncode == 5, done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#include <cufftMp.h>\n", "cuFFTMp is not offered here"),
        ("#include <cusparse.h>\n", "cuSPARSE is not offered here"),
        ("#include <cudnn.h>\n", "cuDNN is not offered here"),
        ("#include <nowhere.h>\n", "-I FOLDER, so that FOLDER/nowhere.h is the header"),
        ("#include <helper_image.h>\n", "-I FOLDER, so that FOLDER/helper_image.h is the header"),
        ("#include <generator>\n", "has no <generator>: name a newer C++ compiler in CXX"),
    ],
)
def test_what_is_not_there_is_named_with_the_next_step(tmp_path: Path, text: str, said: str) -> None:
    done = run_program(tmp_path, f"{text}int main() {{}}\n")
    assert done.returncode == 2 and said in " ".join(done.stderr.split()), done.stderr


def test_a_header_near_by_is_found_and_told(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "include").mkdir(parents=True)
    (tmp_path / "elsewhere" / "include" / "beside.h").write_text("#define beside 4\n")
    done = run_program(tmp_path, "#include <beside.h>\nint main() { return beside; }\n")
    assert done.returncode == 4 and "as if -I elsewhere/include were given" in " ".join(done.stderr.split())
