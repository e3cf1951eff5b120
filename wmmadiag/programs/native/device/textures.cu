// What texture and surface instructions do, in plain loads: linked into a program that has some (programs/textures.py). The formulas are
// the CUDA programming guide's ("Texture Fetching"); what it leaves open is as an H200 answered (tests/programs/textures.md): bits of
// coordinates, weights of 1/256 that are rounded axis by axis, sums that are rounded once.
#include "../texture.hpp"

using wmmadiag::Texture;

namespace {

__device__ const Texture& texture_at(unsigned long long handle) {
    const auto* one = reinterpret_cast<const Texture*>(handle);
    if (one->mark != Texture::marked) __trap();
    return *one;
}

// One channel as a kernel gets it: the bits of a number of 32 bits.
__device__ unsigned channel(const Texture& t, unsigned long long at) {
    unsigned raw = t.bits == 32   ? *reinterpret_cast<const unsigned*>(at)
                   : t.bits == 16 ? *reinterpret_cast<const unsigned short*>(at)
                                  : *reinterpret_cast<const unsigned char*>(at);
    if (t.format == Texture::is_float) {
        if (t.bits == 32) return raw;
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(static_cast<unsigned short>(raw)));
        return __float_as_uint(wide);
    }
    const int unused = 32 - t.bits;
    if (t.format == Texture::is_signed) {
        const int value = static_cast<int>(raw << unused) >> unused;
        if (!t.as_float) return value;
        return __float_as_uint(fmaxf(__fdiv_rn(static_cast<float>(value), static_cast<float>((1 << (t.bits - 1)) - 1)), -1.0f));
    }
    return t.as_float ? __float_as_uint(__fdiv_rn(static_cast<float>(raw), static_cast<float>((1u << t.bits) - 1))) : raw;
}

// An element, with zeros for the channels that it has not.
__device__ uint4 element(const Texture& t, unsigned long long at) {
    const unsigned bytes = t.bits / 8;
    uint4 found{0, 0, 0, 0};
    found.x = channel(t, at);
    if (t.channels > 1) found.y = channel(t, at + bytes);
    if (t.channels > 2) found.z = channel(t, at + 2 * bytes);
    if (t.channels > 3) found.w = channel(t, at + 3 * bytes);
    return found;
}

// Where an axis is read: positions in units of 1/512 of an element. Coordinates from 0 to 1 have 21 bits of fraction.
__device__ long long position(const Texture& t, int axis, float u, Texture::Address& address) {
    constexpr int bits = 21;
    constexpr long long one = 1ll << bits;
    u = fminf(fmaxf(u, -1e6f), 1e6f);
    if (!t.normalized) {
        if (address != Texture::border) address = Texture::clamp;
        return __float2ll_rd(u * 512.0f);
    }
    long long fixed = __float2ll_rd(u * static_cast<float>(one));
    if (address == Texture::wrap) fixed &= one - 1;
    if (address == Texture::mirror) fixed = (fixed >> bits & 1) != 0 ? one - (fixed & (one - 1)) : fixed & (one - 1);
    return fixed * t.size[axis] >> (bits - 9);
}

// A weight of 256 times another, rounded.
__device__ int of(int weight, int part) { return (weight * part + 128) >> 8; }

// The weight of one of the elements around, of 256: bit k of `corner` for the upper one of axis k. First by z, then x, then y.
template <int axes>
__device__ int weight_of(const int* part, int corner) {
    int weight = 256;
    if (axes > 2) weight = (corner & 4) != 0 ? part[2] : 256 - part[2];
    const int right = of(weight, part[0]);
    weight = (corner & 1) != 0 ? right : weight - right;
    if (axes > 1) {
        const int beside = (corner & 1) != 0 ? of(weight, part[1]) : weight - of(weight, 256 - part[1]);
        weight = (corner & 2) != 0 ? beside : weight - beside;
    }
    return weight;
}

// A channel as it is weighed: of whole numbers, in units of 1/65535, of 1/127 and of 1/32767.
__device__ double weighed(const Texture& t, unsigned bits) {
    const float value = __uint_as_float(bits);
    if (!t.as_float) return value;
    const float one = t.format == Texture::is_unsigned ? 65535.0f : t.bits == 8 ? 127.0f : 32767.0f;
    return rintf(value * one);
}

__device__ unsigned finished(const Texture& t, double sum) {
    sum *= 1.0 / 256;
    if (t.as_float) {
        if (t.format == Texture::is_unsigned) return __float_as_uint(__fdiv_rn(static_cast<float>(floor(sum + 0.5)), 65535.0f));
        if (t.bits == 8) sum *= 32767.0 / 127.0;
        return __float_as_uint(__fdiv_rn(static_cast<float>(floor(sum + 0.5)), 32767.0f));
    }
    const int kept = t.bits == 16 ? 11 : 24;  // bits of the result; halves are rounded away from zero
    const auto half = 1ll << (52 - kept), bits = __double_as_longlong(sum) + half;
    return __float_as_uint(__double2float_rz(__longlong_as_double(bits & -(2 * half))));
}

template <int axes>
__device__ uint4 fetch(const Texture& t, unsigned long long base, float x, float y, float z) {
    const float at[3]{x, y, z};
    int low[axes], part[axes];  // the lower element, and the other's weight of 256
    Texture::Address address[axes];
#pragma unroll
    for (int k = 0; k < axes; ++k) {
        address[k] = t.address[k];
        const long long where = position(t, k, at[k], address[k]), between = (where - 255) >> 1;
        low[k] = static_cast<int>(t.filtered ? between >> 8 : where >> 9);
        part[k] = t.filtered ? static_cast<int>(between & 255) : 0;
        if (address[k] != Texture::clamp) continue;
        const int last = static_cast<int>(t.size[k]) - 1;  // between an edge and the same element again there is no weighing
        if (low[k] < 0 || low[k] >= last) {
            low[k] = low[k] < 0 ? 0 : last;
            part[k] = 0;
        }
    }
    double sum[4]{0.0, 0.0, 0.0, 0.0};
    const unsigned bytes = t.channels * t.bits / 8;
#pragma unroll 1
    for (int corner = 0; corner < 1 << axes; ++corner) {
        const int weight = weight_of<axes>(part, corner);
        if (weight == 0) continue;  // what does not count is not read
        bool inside = true;
        unsigned long long from = base;
#pragma unroll
        for (int k = 0; k < axes; ++k) {
            const int size = static_cast<int>(t.size[k]);
            int i = low[k] + (corner >> k & 1);
            if (i < 0 || i >= size) {
                inside &= address[k] != Texture::border;
                const bool around = address[k] == Texture::wrap;
                i = i < 0 ? (around ? size - 1 : 0) : (around ? 0 : size - 1);
            }
            from += static_cast<unsigned long long>(i) * (k == 0 ? bytes : k == 1 ? t.pitch : t.slice);
        }
        const uint4 edge{__float_as_uint(t.edge[0]), __float_as_uint(t.edge[1]), __float_as_uint(t.edge[2]), __float_as_uint(t.edge[3])};
        const uint4 found = inside ? element(t, from) : edge;
        if (!t.filtered) return found;
        sum[0] += weight * weighed(t, found.x);
        sum[1] += weight * weighed(t, found.y);
        sum[2] += weight * weighed(t, found.z);
        sum[3] += weight * weighed(t, found.w);
    }
    return uint4{finished(t, sum[0]), finished(t, sum[1]), finished(t, sum[2]), finished(t, sum[3])};
}

// A row lies in a plane of one row, and what is outside stands beside it, too.
__device__ uint4 fetch_row(const Texture& t, unsigned long long base, float x) {
    if (t.filtered && t.address[1] == Texture::border) return fetch<2>(t, base, x, 0.0f, 0.0f);
    return fetch<1>(t, base, x, 0.0f, 0.0f);
}

__device__ unsigned long long layer_of(const Texture& t, int layer) {
    return t.base + static_cast<unsigned long long>(min(static_cast<unsigned>(layer), t.size[2] - 1)) * t.slice;
}

// The face that a direction meets, and where: as the guide's table has it.
__device__ uint4 fetch_cube(const Texture& t, unsigned layer, float x, float y, float z) {
    const float ax = fabsf(x), ay = fabsf(y), az = fabsf(z);
    unsigned face;
    float along, s, down;
    if (az >= ax && az >= ay) {  // of axes that are alike the last
        face = z < 0.0f ? 5 : 4, along = az, s = z < 0.0f ? -x : x, down = -y;
    } else if (ay >= ax) {
        face = y < 0.0f ? 3 : 2, along = ay, s = x, down = y < 0.0f ? -z : z;
    } else {
        face = x < 0.0f ? 1 : 0, along = ax, s = x < 0.0f ? z : -z, down = -y;
    }
    const unsigned plane = min(layer, t.size[2] / 6 - 1) * 6 + face;
    return fetch<2>(t, t.base + plane * t.slice, (s / along + 1.0f) / 2.0f, (down / along + 1.0f) / 2.0f, 0.0f);
}

// Where the bytes of a surface lie; 0: outside, and nothing is to be read or written.
__device__ unsigned long long place(const Texture& t, unsigned bytes, unsigned how, int x, int y, int z) {
    const int width = static_cast<int>(t.size[0] * t.channels * t.bits / 8), height = t.size[1], depth = t.size[2];
    const bool inside = x >= 0 && x <= width - static_cast<int>(bytes) && y >= 0 && y < height && z >= 0 && z < depth;
    if (!inside) {
        if (how == 0) return t.base + static_cast<unsigned long long>(max(depth, 1)) * t.slice;  // just behind: the access is the fault
        if (how == 2) return 0;
        x = min(max(x, 0), width - static_cast<int>(bytes));
        y = min(max(y, 0), height - 1);
        z = min(max(z, 0), depth - 1);
    }
    return t.base + static_cast<unsigned long long>(z) * t.slice + static_cast<unsigned long long>(y) * t.pitch + x;
}

}  // namespace

extern "C" {

__device__ uint4 wmmadiag_tex_1d(unsigned long long handle, float x) {
    const Texture& t = texture_at(handle);
    return fetch_row(t, t.base, x);
}
__device__ uint4 wmmadiag_tex_2d(unsigned long long handle, float x, float y) {
    const Texture& t = texture_at(handle);
    return fetch<2>(t, t.base, x, y, 0.0f);
}
__device__ uint4 wmmadiag_tex_3d(unsigned long long handle, float x, float y, float z) {
    const Texture& t = texture_at(handle);
    return fetch<3>(t, t.base, x, y, z);
}
__device__ uint4 wmmadiag_tex_a1d(unsigned long long handle, int layer, float x) {
    const Texture& t = texture_at(handle);
    return fetch_row(t, layer_of(t, layer), x);
}
__device__ uint4 wmmadiag_tex_a2d(unsigned long long handle, int layer, float x, float y) {
    const Texture& t = texture_at(handle);
    return fetch<2>(t, layer_of(t, layer), x, y, 0.0f);
}

__device__ uint4 wmmadiag_tex_cube(unsigned long long handle, float x, float y, float z) { return fetch_cube(texture_at(handle), 0, x, y, z); }
__device__ uint4 wmmadiag_tex_acube(unsigned long long handle, int layer, float x, float y, float z) {
    return fetch_cube(texture_at(handle), layer, x, y, z);
}

// tex1Dfetch: an element of plain memory by its number.
__device__ uint4 wmmadiag_texel(unsigned long long handle, int i) {
    const Texture& t = texture_at(handle);
    if (static_cast<unsigned>(i) >= t.size[0]) return uint4{0, 0, 0, 0};
    return element(t, t.base + static_cast<unsigned long long>(i) * (t.channels * t.bits / 8));
}

// Of a surface: `how` 0: outside is a fault, 1: the nearest inside, 2: nothing. For a load, nothing is zeros.
__device__ unsigned long long wmmadiag_surface(unsigned long long handle, unsigned bytes, unsigned how, int x, int y, int z) {
    return place(texture_at(handle), bytes, how, x, y, z);
}
__device__ unsigned long long wmmadiag_zeros(unsigned long long handle) { return reinterpret_cast<unsigned long long>(texture_at(handle).zeros); }

}  // extern "C"
