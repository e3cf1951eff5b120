"""Host code on memory that work has to do with: a race where it has not waited, byte for byte, and none elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import wmmadiag

PROGRAM = r"""#include <cstdio>
#include <cstdlib>
#include <vector>
const int n = 5000;
float *d, *pinned, *managed;
int* flag;
cudaStream_t s;
__global__ void fill(float* a, float v) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = i + v; }
__global__ void spread(float* a) { a[threadIdx.x * 3] = threadIdx.x; }
__global__ void raise(volatile int* f) { *f = 1; }
__global__ void take(const float* a, float* to) { int i = blockIdx.x * 250 + threadIdx.x; to[i] = a[i]; }
__global__ void count(int* f) { atomicAdd(f, 1); }
void back() { fill<<<20, 256, 0, s>>>(d, 0); cudaMemcpyAsync(pinned, d, n * 4, cudaMemcpyDeviceToHost, s); }
void there() {
    for (int i = 0; i < n; i++) pinned[i] = 1;
    cudaMemcpyAsync(d, pinned, n * 4, cudaMemcpyHostToDevice, s);
}
void look(void* data) { printf("%g\n", static_cast<float*>(data)[5]); }
void fills(bool last) {
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < n; i++) managed[i] = 1;
        fill<<<20, 256>>>(managed, 0);
        if (last || r < 2) cudaDeviceSynchronize();
        printf("%g\n", managed[9]);
    }
}
int main(int, char** words) {
    cudaMalloc(&d, n * 4), cudaMallocHost(&pinned, n * 4);
    cudaMallocManaged(&managed, n * 4), cudaMallocManaged(&flag, 4);
    cudaStreamCreate(&s);
    *flag = 0;
    for (int i = 0; i < n; i++) managed[i] = 0;
    double sum = 0;
    switch (atoi(words[1])) {
        case 1: back(); printf("%g\n", pinned[10]); break;
        case 2: there(); pinned[7] = 3; break;
        case 3: fill<<<20, 256>>>(managed, 0); for (int i = 0; i < n; i++) sum += managed[i];
                printf("%g\n", sum); break;
        case 4: count<<<1, 32>>>(flag); printf("%d\n", *flag); break;
        case 5: back(); fwrite(pinned, 4, n, stdout); break;
        case 6: back(); printf("%g\n", std::vector<float>(pinned, pinned + n)[n - 1]); break;
        case 7: fills(false); break;
        case 8: fill<<<20, 256>>>(managed, 0); take<<<20, 250>>>(managed, d); printf("%g\n", managed[9]); break;
        case 11: back(); cudaStreamSynchronize(s); printf("%g\n", pinned[10]); pinned[3] = 1; break;
        case 12: cudaMemcpyAsync(pinned, d, 400, cudaMemcpyDeviceToHost, s); pinned[100] = 1;
                 cudaMemcpyAsync(pinned + 1024, d, 12000, cudaMemcpyDeviceToHost, s);
                 for (int i = 100; i < 1024; i++) pinned[i] = i;
                 for (int i = 4024; i < n; i++) pinned[i] = i;
                 break;
        case 13: spread<<<1, 256>>>(managed);
                 for (int i = 0; i < 256; i++) managed[i * 3 + 1] = 2, sum += managed[i * 3 + 1] + managed[3000 + i];
                 printf("%g\n", sum);
                 break;
        case 14: back(); cudaLaunchHostFunc(s, look, pinned); break;
        case 15: raise<<<1, 1>>>(flag); while (!*(volatile int*)flag) {} break;
        case 16: cudaMemset(managed, 0, n * 4); printf("%g\n", managed[3]); break;
        case 17: there(); printf("%g\n", pinned[7]);
                 fwrite(pinned, 4, 1, stdout); cudaMemcpy(pinned, d, 4, cudaMemcpyDeviceToHost); break;
        case 18: fills(true); break;
        case 19: cudaEvent_t e; cudaEventCreate(&e); back();
                 cudaEventRecord(e, s); cudaEventSynchronize(e); pinned[0] = 1; break;
    }
    cudaDeviceSynchronize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("host_access")
    (made / "program.cu").write_text(PROGRAM)
    return made


def found(folder: Path, case: int, *options: str) -> list[dict[str, str]]:
    """What `wmmadiag run` finds in one case."""
    command = [
        sys.executable,
        "-m",
        "wmmadiag",
        "run",
        "program.cu",
        *options,
        "--json",
        f"{case}.json",
        "--",
        str(case),
    ]
    done = subprocess.run(command, capture_output=True, check=False, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    return [one["finding"] for one in json.loads((folder / f"{case}.json").read_text())["found"]]


def line_of(text: str) -> str:
    """Where the program has this text."""
    return f"program.cu:{1 + PROGRAM[: PROGRAM.index(text)].count(chr(10))}"


@pytest.mark.parametrize(
    ("case", "text", "what"),
    [
        (1, "case 1:", "host code reads bytes 0 to 19999 of pinned"),
        (2, "case 2:", "host code writes bytes 0 to 19999 of pinned"),
        (3, "case 3:", "which fill in the default stream writes"),
        (4, "case 4:", "which count in the default stream writes"),
        (5, "case 5:", "which cudaMemcpyAsync in stream 1 writes"),
        (6, "case 6:", "which cudaMemcpyAsync in stream 1 writes"),
        (8, "case 8:", "which fill in the default stream writes"),
        (7, 'printf("%g\\n", managed[9])', "which fill in the default stream writes"),
    ],
)
def test_what_the_host_does_not_wait_for_is_told(folder: Path, case: int, text: str, what: str) -> None:
    (one,) = found(folder, case)
    assert (one["check"], one["kind"], one["level"]) == ("streams", "host-race", "error")
    assert what in one["message"] and one["place"] == line_of(text)


@pytest.mark.parametrize("case", range(11, 20))
def test_what_it_waits_for_and_other_bytes_are_not(folder: Path, case: int) -> None:
    assert found(folder, case) == []


def test_a_file_gets_what_is_written_to_it_all_the_same(folder: Path) -> None:
    command = [sys.executable, "-m", "wmmadiag", "run", "program.cu", "--", "5"]  # what it writes is no text
    assert len(subprocess.run(command, capture_output=True, check=False, cwd=folder).stdout) == 20000


def test_without_checks_nothing_is_said(folder: Path) -> None:
    assert found(folder, 1, "--checks", "none") == []


ANSWER = r"""#include <cstdio>
#include <cublas_v2.h>
__global__ void fill(float* a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = i; }
int main(int argc, char**) {
    float *a, *d, r = 0;
    cudaMallocManaged(&a, 4000), cudaMalloc(&d, 4);
    cublasHandle_t h;
    cublasCreate(&h);
    cudaStream_t s;
    cudaStreamCreate(&s);
    cublasSetStream(h, s);
    fill<<<4, 256, 0, s>>>(a, 1000);
    if (argc > 1) cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE);
    cublasSasum(h, 1000, a, 1, argc > 1 ? d : &r);
    printf("%g\n", a[5]);
    cudaDeviceSynchronize();
}
"""


@pytest.mark.parametrize(("words", "said"), [((), "nothing found"), (("device",), "1 error")])
def test_a_result_that_the_host_gets_is_waited_for(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "answer.cu").write_text(ANSWER)
    done = wmmadiag(tmp_path, "run", "answer.cu", "--", *words)
    assert said in done.stderr


CALLBACK = r"""#include <cstdio>
#include <thread>
const int n = 5000;
float *pinned, *d;
std::thread worker;
__global__ void fill(float* a) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = i; }
void start(void*) { worker = std::thread([] { printf("%g\n", pinned[7]); }); }
int main(int argc, char**) {
    cudaMallocHost(&pinned, n * 4), cudaMalloc(&d, n * 4);
    cudaStream_t s;
    cudaStreamCreate(&s);
    fill<<<20, 256, 0, s>>>(d);
    if (argc == 1) cudaMemcpyAsync(pinned, d, n * 4, cudaMemcpyDeviceToHost, s);
    cudaLaunchHostFunc(s, start, nullptr);
    if (argc > 1) cudaMemcpyAsync(pinned, d, n * 4, cudaMemcpyDeviceToHost, s), printf("%g\n", pinned[8]);
    worker.join();
    cudaDeviceSynchronize();
}
"""


# What the worker reads then is an error as well, where it is no faster than `main`.
@pytest.mark.parametrize(("words", "said"), [((), "nothing found"), (("late",), "callback.cu:15: host code reads")])
def test_a_callback_tells_other_threads_of_the_host(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "callback.cu").write_text(CALLBACK)
    done = wmmadiag(tmp_path, "run", "callback.cu", "--", *words)
    assert said in done.stderr, done.stderr
