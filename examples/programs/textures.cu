// Layered textures, 3D textures, pitch-linear textures, tex1Dfetch and surface writes: one test each.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t e_ = (call);                                                           \
        if (e_ != cudaSuccess) {                                                           \
            fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); \
            exit(EXIT_FAILURE);                                                            \
        }                                                                                  \
    } while (0)

__global__ void layeredKernel(cudaTextureObject_t tex, float *out, int w, int h, int layer)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float u = (x + 0.5f) / w, v = (y + 0.5f) / h;
    out[layer * w * h + y * w + x] = -tex2DLayered<float>(tex, u, v, layer) + layer;
}

__global__ void volumeKernel(cudaTextureObject_t tex, float *out, int n, float z)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    out[y * n + x] = tex3D<float>(tex, x / (float)n, y / (float)n, z);
}

__global__ void shiftPitchLinear(float *odata, int pitch, int width, int height, int sx, int sy, cudaTextureObject_t tex)
{
    int xid = blockIdx.x * blockDim.x + threadIdx.x;
    int yid = blockIdx.y * blockDim.y + threadIdx.y;
    odata[yid * pitch + xid] = tex2D<float>(tex, (xid + sx) / (float)width, (yid + sy) / (float)height);
}

__global__ void gatherLinear(cudaTextureObject_t t4, cudaTextureObject_t t1, const int *idx, float4 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 a = tex1Dfetch<float4>(t4, idx[i]);
        int b = tex1Dfetch<int>(t1, idx[i]);
        out[i] = make_float4(a.x + b, a.y, a.z, a.w);
    }
}

__global__ void surfaceWrite(float *g, int width, int height, cudaSurfaceObject_t surf)
{
    unsigned int x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int y = blockIdx.y * blockDim.y + threadIdx.y;
    surf2Dwrite(g[y * width + x], surf, x * 4, y, cudaBoundaryModeTrap);
}

__global__ void surfaceCopyUchar4(cudaSurfaceObject_t in, cudaSurfaceObject_t out, int width, int height)
{
    unsigned int x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        uchar4 data;
        surf2Dread(&data, in, x * 4, y);
        data.x = 255 - data.x;
        surf2Dwrite(data, out, x * 4, y);
    }
}

__global__ void readNormalized(cudaTextureObject_t tex, float4 *out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<float4>(tex, x + 0.5f, y + 0.5f);
}

static bool testLayered()
{
    const int w = 64, h = 64, layers = 5;
    std::vector<float> data(w * h * layers), got(w * h * layers);
    for (size_t i = 0; i < data.size(); i++) data[i] = (float)(i % 977);
    float *d; CHECK(cudaMalloc(&d, data.size() * 4));
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
    cudaArray_t arr;
    CHECK(cudaMalloc3DArray(&arr, &desc, make_cudaExtent(w, h, layers), cudaArrayLayered));
    cudaMemcpy3DParms p = {0};
    p.srcPos = make_cudaPos(0, 0, 0);
    p.dstPos = make_cudaPos(0, 0, 0);
    p.srcPtr = make_cudaPitchedPtr(data.data(), w * sizeof(float), w, h);
    p.dstArray = arr;
    p.extent = make_cudaExtent(w, h, layers);
    p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p));
    cudaResourceDesc res = {}; res.resType = cudaResourceTypeArray; res.res.array.array = arr;
    cudaTextureDesc td = {};
    td.normalizedCoords = true; td.filterMode = cudaFilterModeLinear;
    td.addressMode[0] = td.addressMode[1] = cudaAddressModeWrap; td.readMode = cudaReadModeElementType;
    cudaTextureObject_t tex; CHECK(cudaCreateTextureObject(&tex, &res, &td, nullptr));
    for (int l = 0; l < layers; l++) layeredKernel<<<dim3(8, 8), dim3(8, 8)>>>(tex, d, w, h, l);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), d, got.size() * 4, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < got.size(); i++)
        if (got[i] != -data[i] + (float)(i / (w * h))) return false;
    CHECK(cudaDestroyTextureObject(tex)); CHECK(cudaFreeArray(arr)); CHECK(cudaFree(d));
    return true;
}

static bool testVolume()
{
    const int n = 32;
    std::vector<unsigned char> vol(n * n * n);
    for (size_t i = 0; i < vol.size(); i++) vol[i] = (unsigned char)(i * 2654435761u >> 24);
    cudaExtent ext = make_cudaExtent(n, n, n);
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<unsigned char>();
    cudaArray *arr; CHECK(cudaMalloc3DArray(&arr, &desc, ext));
    cudaMemcpy3DParms p = {0};
    p.srcPtr = make_cudaPitchedPtr((void *)vol.data(), ext.width, ext.width, ext.height);
    p.dstArray = arr; p.extent = ext; p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p));
    cudaResourceDesc res; memset(&res, 0, sizeof res); res.resType = cudaResourceTypeArray; res.res.array.array = arr;
    cudaTextureDesc td; memset(&td, 0, sizeof td);
    td.normalizedCoords = true; td.filterMode = cudaFilterModeLinear;
    for (int i = 0; i < 3; i++) td.addressMode[i] = cudaAddressModeWrap;
    td.readMode = cudaReadModeNormalizedFloat;
    cudaTextureObject_t tex; CHECK(cudaCreateTextureObject(&tex, &res, &td, NULL));
    float *d; CHECK(cudaMalloc(&d, n * n * 4));
    std::vector<float> got(n * n);
    volumeKernel<<<dim3(2, 2), dim3(16, 16)>>>(tex, d, n, 0.5f);
    CHECK(cudaMemcpy(got.data(), d, n * n * 4, cudaMemcpyDeviceToHost));
    auto at = [&](int x, int y, int z) { return vol[(((z + n) % n) * n + (y + n) % n) * n + (x + n) % n] / 255.0f; };
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            float s = 0;
            for (int c = 0; c < 8; c++) s += 0.125f * at(x - (c & 1), y - (c >> 1 & 1), n / 2 - (c >> 2));
            if (fabsf(s - got[y * n + x]) > 5e-3f) { printf("volume (%d, %d): %f, not %f\n", x, y, got[y * n + x], s); return false; }
        }
    return true;
}

static bool testPitch()
{
    const int w = 128, h = 64;
    std::vector<float> data(w * h), got(w * h);
    for (int i = 0; i < w * h; i++) data[i] = (float)i;
    float *din, *dout; size_t pin, pout;
    CHECK(cudaMallocPitch((void **)&din, &pin, w * 4, h));
    CHECK(cudaMallocPitch((void **)&dout, &pout, w * 4, h));
    CHECK(cudaMemcpy2D(din, pin, data.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    cudaResourceDesc res; memset(&res, 0, sizeof res);
    res.resType = cudaResourceTypePitch2D;
    res.res.pitch2D.devPtr = din; res.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    res.res.pitch2D.width = w; res.res.pitch2D.height = h; res.res.pitch2D.pitchInBytes = pin;
    cudaTextureDesc td; memset(&td, 0, sizeof td);
    td.normalizedCoords = true; td.filterMode = cudaFilterModePoint;
    td.addressMode[0] = cudaAddressModeWrap; td.addressMode[1] = cudaAddressModeWrap; td.readMode = cudaReadModeElementType;
    cudaTextureObject_t tex; CHECK(cudaCreateTextureObject(&tex, &res, &td, NULL));
    shiftPitchLinear<<<dim3(w / 16, h / 16), dim3(16, 16)>>>(dout, (int)(pout / sizeof(float)), w, h, 64, 32, tex);
    CHECK(cudaMemcpy2D(got.data(), w * 4, dout, pout, w * 4, h, cudaMemcpyDeviceToHost));
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            if (got[y * w + x] != data[(y + 32) % h * w + (x + 64) % w]) return false;
    return true;
}

static bool testFetch()
{
    const int n = 1000;
    std::vector<float4> f(n), got(n); std::vector<int> k(n), idx(n);
    for (int i = 0; i < n; i++) { f[i] = make_float4(i, 2 * i, 3 * i, 4 * i); k[i] = -i; idx[i] = (i * 37) % n; }
    float4 *df, *dout; int *dk, *didx;
    CHECK(cudaMalloc(&df, n * 16)); CHECK(cudaMalloc(&dout, n * 16)); CHECK(cudaMalloc(&dk, n * 4)); CHECK(cudaMalloc(&didx, n * 4));
    CHECK(cudaMemcpy(df, f.data(), n * 16, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dk, k.data(), n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(didx, idx.data(), n * 4, cudaMemcpyHostToDevice));
    cudaTextureObject_t t[2];
    void *ptr[2] = {df, dk}; cudaChannelFormatDesc desc[2] = {cudaCreateChannelDesc<float4>(), cudaCreateChannelDesc<int>()};
    size_t bytes[2] = {n * sizeof(float4), n * sizeof(int)};
    for (int i = 0; i < 2; i++) {
        cudaResourceDesc res = {}; res.resType = cudaResourceTypeLinear;
        res.res.linear.devPtr = ptr[i]; res.res.linear.desc = desc[i]; res.res.linear.sizeInBytes = bytes[i];
        cudaTextureDesc td = {}; td.readMode = cudaReadModeElementType;
        CHECK(cudaCreateTextureObject(&t[i], &res, &td, nullptr));
    }
    gatherLinear<<<(n + 255) / 256, 256>>>(t[0], t[1], didx, dout, n);
    CHECK(cudaMemcpy(got.data(), dout, n * 16, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        if (got[i].x != 0 || got[i].w != 4.0f * idx[i]) return false;
    return true;
}

static bool testSurface()
{
    const int w = 64, h = 32;
    std::vector<float> data(w * h), got(w * h);
    for (int i = 0; i < w * h; i++) data[i] = sqrtf((float)i);
    float *d; CHECK(cudaMalloc(&d, w * h * 4)); CHECK(cudaMemcpy(d, data.data(), w * h * 4, cudaMemcpyHostToDevice));
    cudaArray *arr; cudaChannelFormatDesc desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    CHECK(cudaMallocArray(&arr, &desc, w, h, cudaArraySurfaceLoadStore));
    cudaResourceDesc res; memset(&res, 0, sizeof res); res.resType = cudaResourceTypeArray; res.res.array.array = arr;
    cudaSurfaceObject_t surf; CHECK(cudaCreateSurfaceObject(&surf, &res));
    surfaceWrite<<<dim3(w / 8, h / 8), dim3(8, 8)>>>(d, w, h, surf);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy2DFromArray(got.data(), w * 4, arr, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    if (got != data) return false;

    cudaArray_t a8, b8; cudaChannelFormatDesc d8 = cudaCreateChannelDesc<uchar4>();
    CHECK(cudaMallocArray(&a8, &d8, w, h, cudaArraySurfaceLoadStore));
    CHECK(cudaMallocArray(&b8, &d8, w, h, cudaArraySurfaceLoadStore));
    std::vector<uchar4> img(w * h), back(w * h);
    for (int i = 0; i < w * h; i++) img[i] = make_uchar4(i, i >> 2, i >> 4, 255);
    CHECK(cudaMemcpy2DToArray(a8, 0, 0, img.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    cudaSurfaceObject_t sa, sb;
    res.res.array.array = a8; CHECK(cudaCreateSurfaceObject(&sa, &res));
    res.res.array.array = b8; CHECK(cudaCreateSurfaceObject(&sb, &res));
    surfaceCopyUchar4<<<dim3(w / 16, h / 16), dim3(16, 16)>>>(sa, sb, w, h);
    CHECK(cudaMemcpy2DFromArray(back.data(), w * 4, b8, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    for (int i = 0; i < w * h; i++)
        if (back[i].x != 255 - img[i].x || back[i].y != img[i].y || back[i].w != 255) return false;
    cudaTextureDesc td = {}; td.readMode = cudaReadModeNormalizedFloat; td.addressMode[0] = td.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t tex; res.res.array.array = b8; CHECK(cudaCreateTextureObject(&tex, &res, &td, nullptr));
    float4 *d4; CHECK(cudaMalloc(&d4, w * h * 16)); std::vector<float4> f4(w * h);
    readNormalized<<<dim3(w / 16, h / 16), dim3(16, 16)>>>(tex, d4, w, h);
    CHECK(cudaMemcpy(f4.data(), d4, w * h * 16, cudaMemcpyDeviceToHost));
    for (int i = 0; i < w * h; i++)
        if (fabsf(f4[i].x - back[i].x / 255.0f) > 1e-6f || f4[i].w != 1.0f) return false;
    CHECK(cudaDestroySurfaceObject(surf));
    return true;
}

int main()
{
    struct { const char *name; bool (*f)(); } tests[] = {{"layered", testLayered}, {"volume", testVolume}, {"pitch", testPitch}, {"fetch", testFetch}, {"surface", testSurface}};
    bool ok = true;
    for (auto &t : tests) { bool r = t.f(); printf("%-8s %s\n", t.name, r ? "passed" : "FAILED"); ok = ok && r; }
    printf("%s\n", ok ? "Test PASSED" : "Test FAILED");
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
