/* Texture references, which CUDA 12 took out: a variable of the device that holds a texture object, bound by the host. */
#ifndef WMMADIAG_TEXTURE_REFERENCES_H
#define WMMADIAG_TEXTURE_REFERENCES_H
#include <cuda_runtime.h>

template <class T, int type = 1, cudaTextureReadMode mode = cudaReadModeElementType>
struct wmmadiag_texture {
    unsigned long long held[16]; /* the object first: the host's `texture` has the same size */
};

template <class T, cudaTextureReadMode mode>
struct wmmadiag_fetched {
    typedef T type;
};
#define WMMADIAG_NORMALIZED(from, to)                        \
    template <>                                              \
    struct wmmadiag_fetched<from, cudaReadModeNormalizedFloat> { \
        typedef to type;                                     \
    };
WMMADIAG_NORMALIZED(unsigned char, float)
WMMADIAG_NORMALIZED(signed char, float)
WMMADIAG_NORMALIZED(char, float)
WMMADIAG_NORMALIZED(unsigned short, float)
WMMADIAG_NORMALIZED(short, float)
WMMADIAG_NORMALIZED(uchar1, float1)
WMMADIAG_NORMALIZED(uchar2, float2)
WMMADIAG_NORMALIZED(uchar4, float4)
WMMADIAG_NORMALIZED(char1, float1)
WMMADIAG_NORMALIZED(char2, float2)
WMMADIAG_NORMALIZED(char4, float4)
WMMADIAG_NORMALIZED(ushort1, float1)
WMMADIAG_NORMALIZED(ushort2, float2)
WMMADIAG_NORMALIZED(ushort4, float4)
WMMADIAG_NORMALIZED(short1, float1)
WMMADIAG_NORMALIZED(short2, float2)
WMMADIAG_NORMALIZED(short4, float4)
#undef WMMADIAG_NORMALIZED

#define WMMADIAG_FETCH(name, parameters, arguments)                                                     \
    template <class T, int type, cudaTextureReadMode mode>                                              \
    __device__ typename wmmadiag_fetched<T, mode>::type name parameters {                               \
        return name<typename wmmadiag_fetched<T, mode>::type> arguments;                                \
    }
#define WMMADIAG_REFERENCE const wmmadiag_texture<T, type, mode>& from
WMMADIAG_FETCH(tex1Dfetch, (WMMADIAG_REFERENCE, int i), (from.held[0], i))
WMMADIAG_FETCH(tex1D, (WMMADIAG_REFERENCE, float x), (from.held[0], x))
WMMADIAG_FETCH(tex2D, (WMMADIAG_REFERENCE, float x, float y), (from.held[0], x, y))
WMMADIAG_FETCH(tex3D, (WMMADIAG_REFERENCE, float x, float y, float z), (from.held[0], x, y, z))
WMMADIAG_FETCH(tex1DLayered, (WMMADIAG_REFERENCE, float x, int layer), (from.held[0], x, layer))
WMMADIAG_FETCH(tex2DLayered, (WMMADIAG_REFERENCE, float x, float y, int layer), (from.held[0], x, y, layer))
WMMADIAG_FETCH(texCubemap, (WMMADIAG_REFERENCE, float x, float y, float z), (from.held[0], x, y, z))
#undef WMMADIAG_FETCH
#undef WMMADIAG_REFERENCE

#define texture __device__ wmmadiag_texture
#endif
