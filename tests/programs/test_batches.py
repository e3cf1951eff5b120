"""Copies and hints in batches: done, checked like single ones, refused where their attributes make no sense."""

from __future__ import annotations

from pathlib import Path

from command import run_program

BATCH = r"""#include <cstdio>
#include <cstring>
int main() {
    int a[3][8], back[3][8] = {}, *d, *m;
    for (int i = 0; i < 24; ++i) a[i / 8][i % 8] = i;
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaMalloc(&d, sizeof a);
    void* to[3];
    const void* from[3];
    size_t sizes[3], first = 0, late = 1;
    for (int i = 0; i < 3; ++i) to[i] = d + 8 * i, from[i] = a[2 - i], sizes[i] = sizeof a[0];
    cudaMemcpyAttributes how{};
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    int got[5];
    got[0] = cudaMemcpyBatchAsync(to, from, sizes, 3, &how, &first, 1, s);
    got[1] = cudaMemcpyBatchAsync(to, from, sizes, 3, &how, &late, 1, s);
    got[2] = cudaMemcpyBatchAsync(to, from, sizes, 3, &how, &first, 1, nullptr);
    size_t failed = 7;  // as CUDA 12.8 has it
    got[3] = cudaMemcpyBatchAsync(to, const_cast<void**>(from), sizes, 1, &how, &first, 1, &failed, s);
    cudaMemcpy3DBatchOp op{};
    op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
    op.src.op.ptr = {d, 32, 3, {}};
    op.dst.op.ptr = {back, 32, 3, {}};
    op.extent = {32, 3, 1};
    op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    got[4] = cudaMemcpy3DBatchAsync(1, &op, 0, s);
    cudaStreamSynchronize(s);
    for (int one : got) printf("%d ", one);
    printf("%d %d %d\n", back[0][0], back[1][7], back[2][7]);
    cudaMallocManaged(&m, 64);
    void* whole = m;
    size_t bytes = 64;
    cudaMemLocation here{cudaMemLocationTypeDevice, {0}};
    printf("%d ", cudaMemPrefetchBatchAsync(&whole, &bytes, 1, &here, &first, 1, 0, s));
    int last = -5;
    cudaMemRangeGetAttribute(&last, 4, cudaMemRangeAttributeLastPrefetchLocation, m, 64);
    printf("%d ", last);
    whole = d;
    printf("%d\n", cudaMemPrefetchBatchAsync(&whole, &bytes, 1, &here, &first, 1, 0, s));
    cudaGetLastError();
    sizes[2] += 4;
    return cudaMemcpyBatchAsync(to, from, sizes, 3, &how, &first, 1, s) == cudaErrorInvalidValue ? 5 : 6;
}
"""


def test_copies_and_hints_in_batches(tmp_path: Path) -> None:
    done = run_program(tmp_path, BATCH)
    assert done.stdout == "0 1 1 0 0 16 15 7\n0 0 1\n", done.stderr
    line = 1 + next(i for i, one in enumerate(BATCH.splitlines()) if one.lstrip().startswith("return"))
    assert f"program.cu:{line}: cudaMemcpyBatchAsync" in done.stderr and done.returncode == 1
    assert "exit status 5" in done.stderr
