"""What a captured card says of an input's values."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from command import wmmadiag

from wmmadiag.programs.capture import recorded
from wmmadiag.subject.card_files.stored import bytes_of, text_of, text_within


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (np.full(9, 2.5, np.float32), "2.5"),
        (np.arange(6, dtype=np.float16) * 0.5 + 1, "1.0 + 0.5*i"),
        (np.arange(5, dtype=np.int32), "0 + 1*i"),
        (np.array([3, 1, 2], np.int32), [3, 1, 2]),
        (np.arange(12, dtype=np.float32) % 3, [0.0, 1.0, 2.0] * 4),
        (np.random.default_rng(1).normal(size=64).astype(np.float32), None),
        (np.array([1.0, np.nan], np.float32), None),
    ],
)
def test_values_that_are_not_random_are_kept(data: np.ndarray, said: object) -> None:
    assert recorded(data).get("values") == said


def test_more_than_can_be_listed_are_kept_as_memory_holds_them() -> None:
    data = np.arange(10_000, dtype=np.float32) % 7
    assert bytes_of(str(recorded(data)["values"]), data.nbytes) == data.tobytes()


def test_values_that_no_card_should_hold_are_named() -> None:
    assert "not random" in recorded(np.random.default_rng(2).integers(0, 1 << 30, 2_000_000))["unsaid"]


def test_a_text_is_as_long_as_it_may_be() -> None:
    data = (np.arange(300_000, dtype=np.int32) % 1000).tobytes()
    text = text_within(data, len(data))
    assert text is not None and bytes_of(text, len(data)) == data
    assert text_within(data, len(text)) == text and text_within(data, len(text) - 1) is None


@pytest.mark.parametrize(("text", "most"), [("zlib:?", 9), ("zlib:AAAA", 9), (text_of(b"0123456789"), 9)])
def test_what_stands_for_no_values_is_refused(text: str, most: int) -> None:
    with pytest.raises(ValueError):
        bytes_of(text, most)


PERMUTED = """#include <cstdio>
#include <vector>
__global__ void gather(const int* at, const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[at[i]];
}
int main() {
    const int n = 6000;
    std::vector<int> at(n);
    for (int i = 0; i < n; ++i) at[i] = i * 7919 % n;
    int* a;
    float *x, *y;
    cudaMalloc(&a, n * 4), cudaMalloc(&x, n * 4), cudaMalloc(&y, n * 4);
    cudaMemcpy(a, at.data(), n * 4, cudaMemcpyHostToDevice);
    cudaMemset(x, 0, n * 4);
    gather<<<(n + 255) / 256, 256>>>(a, x, y, n);
    return cudaDeviceSynchronize();
}
"""


@pytest.mark.slow
def test_indices_of_a_large_array_are_those_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "gather.cu").write_text(PERMUTED)
    made = wmmadiag(tmp_path, "init", "gather.cu", "--run")
    assert made.returncode == 0, made.stderr
    checked = wmmadiag(tmp_path, "check", "gather.toml")
    assert checked.returncode == 0, checked.stdout
    card = (tmp_path / "gather.toml").read_text()
    wrong = (np.arange(6000, dtype=np.int32) + 1).tobytes()
    (tmp_path / "gather.toml").write_text(re.sub('"zlib:[^"]*"', f'"{text_of(wrong)}"', card))
    assert "out of bounds" in wmmadiag(tmp_path, "check", "gather.toml").stdout
    (tmp_path / "gather.toml").write_text(re.sub('"zlib:[^"]*"', f'"{text_of(wrong[:400])}"', card))
    refused = wmmadiag(tmp_path, "check", "gather.toml")
    assert refused.returncode == 2 and "6000 elements, but 100 values" in refused.stderr + refused.stdout


PARTS = """#include <cstdio>
__constant__ float factors[2];
__device__ int counted = 3;
__constant__ float half_of = 0.5f;
__global__ void scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * factors[1] * half_of + counted;
}
__global__ void whole(float* y) { y[threadIdx.x] = 1 + counted; }
int main() {
    float h[2] = {1, 4}, *x, *y, *z;
    cudaMalloc(&x, 800), cudaMalloc(&y, 800), cudaMalloc(&z, 256);
    cudaMemset(x, 0, 800);
    cudaMemcpyToSymbol(factors, h, sizeof h);
    scale<<<1, 128>>>(x, y, 100);
    scale<<<1, 64>>>(x + 100, y + 100, 50);
    whole<<<1, 64>>>(z);
    return cudaDeviceSynchronize();
}
"""


@pytest.mark.slow
def test_a_launch_that_fills_a_part_and_reads_what_the_host_set_says_so(tmp_path: Path) -> None:
    (tmp_path / "parts.cu").write_text(PARTS)
    made = wmmadiag(tmp_path, "init", "parts.cu", "--run")
    assert made.returncode == 0, made.stderr
    cards = [tmp_path / f"parts_{number}.toml" for number in (1, 2, 3)]
    texts = [card.read_text() for card in cards]
    assert ["initial" in text for text in texts] == [True, False, False]  # the second begins with some of it filled
    assert ["had set factors by then" in text for text in texts] == [True, True, False]
    assert not any("counted" in text or "half_of" in text for text in texts)
    checked = wmmadiag(tmp_path, "check", *(card.name for card in cards))
    assert checked.returncode == 0, checked.stdout
