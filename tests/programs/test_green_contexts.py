"""Multiprocessors: blocks take turns on as many as there are, and on fewer in streams of green contexts."""

from __future__ import annotations

from pathlib import Path

from command import run_program

COUNTED = r"""#include <cstdio>
__global__ void where(int *blocks, unsigned *most) {
    unsigned sm, all;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    asm("mov.u32 %0, %%nsmid;" : "=r"(all));
    if (threadIdx.x == 0) atomicAdd(blocks + sm, 1), *most = all;
}
int main() {
    int count, *blocks, sum = 0, used = 0;
    unsigned *most, all;
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
    cudaMalloc(&blocks, count * sizeof(int)), cudaMalloc(&most, 4);
    cudaMemset(blocks, 0, count * sizeof(int));
    where<<<5 * count, 32>>>(blocks, most);
    int *h = new int[count];
    cudaMemcpy(h, blocks, count * sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(&all, most, 4, cudaMemcpyDeviceToHost);
    for (int i = 0; i < count; ++i) sum += h[i], used += h[i] > 0;
    printf("%d %d %d\n", sum == 5 * count, used == count, all == count);
    delete[] h;
}
"""

GREEN = r"""#include <cuda.h>
#include <cooperative_groups.h>
#include <cstdio>
__global__ void where(int *blocks) {
    unsigned sm, of;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    asm("mov.u32 %0, %%nsmid;" : "=r"(of));
    if (threadIdx.x == 0 && of == 132) atomicAdd(blocks + sm, 1);
}
__global__ void all(int *done) {
    if (threadIdx.x == 0) atomicAdd(done, 1);
    cooperative_groups::this_grid().sync();
}
int main() {
    CUdevResource whole, parts[2], rest;
    cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM);
    unsigned groups = 2, fit = 0;
    cuDevSmResourceSplitByCount(nullptr, &fit, &whole, nullptr, 0, 10);
    cuDevSmResourceSplitByCount(parts, &groups, &whole, &rest, 0, 10);
    printf("%u %u %u %u %u\n", whole.sm.smCount, fit, groups, parts[1].sm.smCount, rest.sm.smCount);
    cuDevSmResourceSplitByCount(nullptr, &fit, &whole, nullptr, 0, 66);
    printf("%u ", fit);
    cuDevSmResourceSplitByCount(nullptr, &fit, &whole, nullptr, 0, 132);
    printf("%u ", fit);
    cuDevSmResourceSplitByCount(nullptr, &fit, &whole, nullptr, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 3);
    printf("%u\n", fit);
    CUdevResourceDesc what;
    CUgreenCtx context;
    CUstream stream;
    cuDevResourceGenerateDesc(&what, parts, 1);
    cuGreenCtxCreate(&context, what, 0, CU_GREEN_CTX_DEFAULT_STREAM);
    cuGreenCtxStreamCreate(&stream, context, CU_STREAM_NON_BLOCKING, 0);
    int *blocks, h[132], used = 0;
    cudaMalloc(&blocks, sizeof h);
    cudaMemsetAsync(blocks, 0, sizeof h, stream);
    where<<<132, 32, 0, stream>>>(blocks);
    cudaMemcpyAsync(h, blocks, sizeof h, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    for (int one : h) used += one > 0;
    void *arguments[] = {&blocks};
    const int whole_fits = cudaLaunchCooperativeKernel((void *)all, 132, 1024, arguments, 0, 0);
    cudaDeviceSynchronize();
    printf("%d %d %d\n", used, whole_fits, cudaLaunchCooperativeKernel((void *)all, 132, 1024, arguments, 0, stream));
    CUevent event;
    cuEventCreate(&event, 0);
    printf("%d ", cuGreenCtxRecordEvent(context, event));
    printf("%d\n", cuGreenCtxDestroy(context));
}
"""


def test_blocks_have_multiprocessors_that_there_are(tmp_path: Path) -> None:
    done = run_program(tmp_path, COUNTED)
    assert (done.stdout, done.returncode) == ("1 1 1\n", 0), done.stderr


def test_streams_of_green_contexts_have_their_part(tmp_path: Path) -> None:
    done = run_program(tmp_path, GREEN, "--arch", "sm_90")
    assert done.stdout == "132 8 2 16 100\n1 1 33\n16 0 720\n0 0\n", done.stderr
    assert "132 blocks in a cooperative launch; 32 fit the stream's multiprocessors" in " ".join(done.stderr.split())
    assert "1 error" in done.stderr
