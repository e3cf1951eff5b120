"""Arrays and textures by the driver's interface, copies of three dimensions, and nodes of graphs that do them."""

from __future__ import annotations

from pathlib import Path

from command import run_program

ARRAYS = r"""#include <cuda.h>
#include <cstdio>
__global__ void fetch(cudaTextureObject_t t, float *to) {
    to[threadIdx.y * 8 + threadIdx.x] = tex2D<float>(t, threadIdx.x + 0.5f, threadIdx.y + 0.5f);
}
int main() {
    cuInit(0);
    float h[4][8], back[4][8] = {}, row[8] = {};
    for (int i = 0; i < 32; ++i) h[i / 8][i % 8] = i;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR what{8, 4, CU_AD_FORMAT_FLOAT, 1};
    cuArrayCreate(&array, &what);
    CUDA_MEMCPY2D in{};
    in.srcMemoryType = CU_MEMORYTYPE_HOST, in.srcHost = h, in.srcPitch = 32;
    in.dstMemoryType = CU_MEMORYTYPE_ARRAY, in.dstArray = array;
    in.WidthInBytes = 32, in.Height = 4;
    cuMemcpy2D(&in);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY, resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC how{};
    how.addressMode[0] = how.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
    CUtexObject texture;
    cuTexObjectCreate(&texture, &resource, &how, nullptr);
    float *d;
    cudaMalloc(&d, sizeof h);
    fetch<<<1, dim3(8, 4)>>>(texture, d);
    cudaMemcpy(back, d, sizeof h, cudaMemcpyDeviceToHost);
    CUDA_ARRAY_DESCRIPTOR told;
    cuArrayGetDescriptor(&told, array);
    cuMemcpyAtoH(row, array, 4, 8);
    printf("%g %g %zu %d %g %g\n", back[0][0], back[3][7], told.Width, told.Format, row[0], row[1]);

    CUDA_MEMCPY3D p{};  // rows 1 and 2, columns 2 to 5, of planes
    p.srcMemoryType = CU_MEMORYTYPE_HOST, p.srcHost = h, p.srcPitch = 32, p.srcHeight = 4;
    p.srcXInBytes = 8, p.srcY = 1;
    p.dstMemoryType = CU_MEMORYTYPE_DEVICE, p.dstDevice = (CUdeviceptr)d, p.dstPitch = 16, p.dstHeight = 2;
    p.WidthInBytes = 16, p.Height = 2, p.Depth = 1;
    cudaMemset(d, 0, sizeof h);
    cuMemcpy3D(&p);
    cudaMemcpy(row, d, sizeof row, cudaMemcpyDeviceToHost);
    printf("%g %g %g\n", row[0], row[3], row[7]);
    CUgraph graph;
    CUgraphNode copy, fill, mark;
    CUgraphExec exec;
    CUevent event;
    cuEventCreate(&event, 0);
    cuGraphCreate(&graph, 0);
    CUDA_MEMSET_NODE_PARAMS ms{};
    ms.dst = (CUdeviceptr)d, ms.elementSize = 2, ms.value = 0x3f80, ms.width = 64, ms.height = 1;
    cuGraphAddMemsetNode(&fill, graph, nullptr, 0, &ms, nullptr);
    cuGraphAddMemcpyNode(&copy, graph, &fill, 1, &p, nullptr);
    cuGraphAddEventRecordNode(&mark, graph, &copy, 1, event);
    CUDA_GRAPH_INSTANTIATE_PARAMS with{};
    with.flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    cuGraphInstantiateWithParams(&exec, graph, &with);
    cuuint64_t flags = 0;
    cuGraphExecGetFlags(exec, &flags);
    cuGraphLaunch(exec, 0);
    cuEventSynchronize(event);
    cudaMemcpy(back, d, sizeof back, cudaMemcpyDeviceToHost);
    unsigned bits;
    __builtin_memcpy(&bits, &back[3][7], 4);
    printf("%g %g %x %llu\n", back[0][0], back[0][7], bits, (unsigned long long)flags);
    cudaLaunchAttributeValue window{}, got{};
    window.accessPolicyWindow.num_bytes = 64;
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaStreamSetAttribute(s, cudaLaunchAttributeAccessPolicyWindow, &window);
    cudaStreamGetAttribute(s, cudaLaunchAttributeAccessPolicyWindow, &got);
    printf("%zu\n", got.accessPolicyWindow.num_bytes);
    cuTexObjectDestroy(texture);
    cuArrayDestroy(array);
    in.dstArray = nullptr, in.srcXInBytes = 4;
    return cuMemcpy2D(&in) == CUDA_ERROR_INVALID_VALUE ? 0 : 9;
}
"""


def test_arrays_copies_and_nodes_of_the_driver(tmp_path: Path) -> None:
    done = run_program(tmp_path, ARRAYS)
    assert done.stdout == "0 31 8 32 1 2\n10 13 21\n10 21 3f803f80 1\n64\n", done.stderr
    assert done.returncode == 0 and "nothing found" in done.stderr
