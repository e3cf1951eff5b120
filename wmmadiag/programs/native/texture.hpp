// What a texture or surface object is: a record in the device's memory, whose address is the object's handle. The runtime writes it
// (textures.cpp), kernels read it (device/textures.cu).
#pragma once

namespace wmmadiag {

struct Texture {
    static constexpr unsigned long long marked = 0x6d64746578747572;
    enum Resource : unsigned { array, linear, surface };
    enum Address : unsigned { wrap, clamp, mirror, border };  // cudaTextureAddressMode
    enum Format : unsigned { is_signed, is_unsigned, is_float };

    unsigned long long mark;
    unsigned long long base;          // of its elements
    unsigned long long pitch, slice;  // bytes of a row, of a layer or a plane
    unsigned size[3];                 // elements; the last one layers, of a layered array
    unsigned channels, bits;          // of an element, of a channel
    Format format;
    Resource resource;
    unsigned normalized;  // coordinates from 0 to 1
    unsigned filtered;    // linear; else the nearest element
    unsigned as_float;    // whole numbers are read as from 0 or -1 to 1
    Address address[3];
    float edge[4];      // what stands outside, by Address::border
    unsigned zeros[4];  // what a surface read outside gives, by .zero
};

}  // namespace wmmadiag
