// What textures answer: a hash of 1024 fetches for each format, dimension, filter and address mode. texture_answers.txt holds what an
// H200 printed.
#include <cstdio>
#include <cstring>
#include <vector>

#define OK(call) \
    if (const auto error = (call); error != cudaSuccess) return printf("line %d: %s\n", __LINE__, cudaGetErrorString(error)), 1

__global__ void fetch(cudaTextureObject_t t, int axes, const float* u, float4* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = u[i], y = u[n - 1 - i], z = u[i * 7 % n];
    out[i] = axes == 1 ? tex1D<float4>(t, x) : axes == 2 ? tex2D<float4>(t, x, y) : tex3D<float4>(t, x, y, z);
}
__global__ void layers(cudaTextureObject_t t, const float* u, float4* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = tex2DLayered<float4>(t, u[i], u[n - 1 - i], i % 9 - 1);
}

unsigned seed = 12345;
unsigned next() { return seed = seed * 1664525u + 1013904223u; }
float fraction() { return (int)(next() >> 8) / 16777216.0f; }

unsigned hashed(const std::vector<float4>& all) {
    unsigned hash = 2166136261u;
    for (const auto& one : all)
        for (const float value : {one.x, one.y, one.z, one.w}) {
            unsigned bits;
            memcpy(&bits, &value, 4);
            hash = (hash ^ bits) * 16777619u;
        }
    return hash;
}

int main() {
    const int n = 1024, width = 13, height = 11, depth = 7;
    std::vector<float> where(n), scaled(n);
    for (int i = 0; i < n; i++) {
        const float any = fraction(), near = (int)(next() % 14) + ((int)(next() % 9) - 4) / 512.0f;
        where[i] = i < 256 ? i / 1024.0f * 13 : i < 512 ? 3.0f + (i - 256) / 16384.0f : i < 768 ? any * 40 - 14 : near;
        scaled[i] = where[i] / width;
    }
    float* u;
    float4* fetched;
    OK(cudaMalloc(&u, n * 4));
    OK(cudaMalloc(&fetched, n * sizeof(float4)));
    std::vector<float4> out(n);
    const struct {
        const char* name;
        cudaChannelFormatDesc format;
    } kinds[] = {{"float", cudaCreateChannelDesc<float>()},          {"float4", cudaCreateChannelDesc<float4>()},
                 {"uchar", cudaCreateChannelDesc<unsigned char>()},  {"uchar4", cudaCreateChannelDesc<uchar4>()},
                 {"ushort", cudaCreateChannelDesc<unsigned short>()}, {"short2", cudaCreateChannelDesc<short2>()}};
    const char* modes[] = {"wrap", "clamp", "mirror", "border"};
    for (const auto& kind : kinds)
        for (int axes = 1; axes <= 4; axes++) {  // 4: layers
            const auto& f = kind.format;
            const size_t element = (f.x + f.y + f.z + f.w) / 8, rows = axes > 1 ? height : 1, planes = axes > 2 ? depth : 1;
            std::vector<unsigned char> data(width * rows * planes * element);
            if (f.f == cudaChannelFormatKindFloat) {
                for (size_t i = 0; i < data.size() / 4; i++) {
                    const float value = fraction() * 2 - 1;
                    memcpy(&data[i * 4], &value, 4);
                }
            } else {
                for (auto& one : data) one = next() >> 24;
            }
            cudaArray_t array;
            const auto extent = make_cudaExtent(width, axes > 1 ? height : 0, axes > 2 ? depth : 0);
            OK(cudaMalloc3DArray(&array, &f, extent, axes == 4 ? cudaArrayLayered : 0));
            cudaMemcpy3DParms copy{};
            copy.srcPtr = make_cudaPitchedPtr(data.data(), width * element, width, rows);
            copy.dstArray = array;
            copy.extent = make_cudaExtent(width, rows, planes);
            copy.kind = cudaMemcpyHostToDevice;
            OK(cudaMemcpy3D(&copy));
            for (int how = 0; how < 16; how++) {
                const bool normalized = how & 1, linear = how & 2;
                if (linear && how >> 2 == cudaAddressModeMirror) continue;
                cudaResourceDesc resource{};
                resource.resType = cudaResourceTypeArray;
                resource.res.array.array = array;
                cudaTextureDesc texture{};
                for (auto& mode : texture.addressMode) mode = (cudaTextureAddressMode)(how >> 2);
                texture.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
                texture.normalizedCoords = normalized;
                texture.readMode = f.f == cudaChannelFormatKindFloat ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
                texture.borderColor[0] = 0.25f;
                cudaTextureObject_t object;
                OK(cudaCreateTextureObject(&object, &resource, &texture, nullptr));
                OK(cudaMemcpy(u, normalized ? scaled.data() : where.data(), n * 4, cudaMemcpyHostToDevice));
                if (axes == 4) layers<<<n / 128, 128>>>(object, u, fetched, n);
                else fetch<<<n / 128, 128>>>(object, axes, u, fetched, n);
                OK(cudaMemcpy(out.data(), fetched, n * sizeof(float4), cudaMemcpyDeviceToHost));
                printf("%s %d %s%s%s %08x\n", kind.name, axes, linear ? "linear " : "", normalized ? "normalized " : "", modes[how >> 2], hashed(out));
                OK(cudaDestroyTextureObject(object));
            }
            OK(cudaFreeArray(array));
        }
    return 0;
}
