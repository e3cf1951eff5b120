// What programs in the style of the CUDA samples call of helper_image.h, where that is not there: grey images, numbers in files, comparisons.
#pragma once
#include <cmath>
#include <fstream>
#include <type_traits>
#include <vector>

#include "helper_string.h"

// A binary image of `channels` bytes a pixel, P5 or P6; a missing fourth channel is 0.
inline bool wmmadiag_load_image(const char* name, unsigned char** data, unsigned* w, unsigned* h, int wanted) {
    std::ifstream file(name, std::ios::binary);
    std::string magic;
    unsigned numbers[3];
    if (!(file >> magic) || (magic != "P5" && magic != "P6")) return false;
    for (auto& one : numbers) {
        while (file >> std::ws && file.peek() == '#') file.ignore(1 << 20, '\n');
        if (!(file >> one)) return false;
    }
    file.get();
    const int held = magic == "P5" ? 1 : 3;
    std::vector<unsigned char> bytes(std::size_t{numbers[0]} * numbers[1] * held);
    if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) return false;
    const auto pixels = std::size_t{numbers[0]} * numbers[1];
    if (*data == nullptr) *data = static_cast<unsigned char*>(malloc(pixels * wanted));
    for (std::size_t i = 0; i < pixels; ++i)
        for (int c = 0; c < wanted; ++c) (*data)[i * wanted + c] = c < held ? bytes[i * held + c] : 0;
    *w = numbers[0];
    *h = numbers[1];
    return true;
}
template <class T>
bool sdkLoadPGM(const char* name, T** data, unsigned* w, unsigned* h) {
    unsigned char* bytes = nullptr;
    if (!wmmadiag_load_image(name, &bytes, w, h, 1)) return false;
    const auto size = std::size_t{*w} * *h;
    if (*data == nullptr) *data = static_cast<T*>(malloc(size * sizeof(T)));
    for (std::size_t i = 0; i < size; ++i)
        (*data)[i] = std::is_floating_point<T>::value ? static_cast<T>(bytes[i] / 255.0f) : static_cast<T>(bytes[i]);
    free(bytes);
    return true;
}
inline bool sdkLoadPPM4ub(const char* name, unsigned char** data, unsigned* w, unsigned* h) { return wmmadiag_load_image(name, data, w, h, 4); }

inline bool wmmadiag_save_image(const char* name, const unsigned char* data, unsigned w, unsigned h, int channels, int stride) {
    std::ofstream file(name, std::ios::binary);
    file << (channels == 1 ? "P5\n" : "P6\n") << w << "\n" << h << "\n255\n";
    for (std::size_t i = 0; i < std::size_t{w} * h; ++i) file.write(reinterpret_cast<const char*>(data + i * stride), channels);
    return static_cast<bool>(file);
}
template <class T>
bool sdkSavePGM(const char* name, T* data, unsigned w, unsigned h) {
    std::vector<unsigned char> bytes(std::size_t{w} * h);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(std::is_floating_point<T>::value ? data[i] * 255 : data[i]);
    return wmmadiag_save_image(name, bytes.data(), w, h, 1, 1);
}
inline bool sdkSavePPM4ub(const char* name, unsigned char* data, unsigned w, unsigned h) { return wmmadiag_save_image(name, data, w, h, 3, 4); }

template <class T>
bool sdkReadFile(const char* name, T** data, unsigned* size, bool verbose) {
    std::ifstream file(name);
    if (!file && verbose) fprintf(stderr, "sdkReadFile: %s cannot be opened\n", name);
    if (!file) return false;
    std::vector<T> read;
    for (T one; file >> one;) read.push_back(one);
    if (*data == nullptr) *data = static_cast<T*>(malloc(sizeof(T) * read.size()));
    else if (*size < read.size()) read.resize(*size);
    for (std::size_t i = 0; i < read.size(); ++i) (*data)[i] = read[i];
    *size = static_cast<unsigned>(read.size());
    return true;
}
template <class T, class S>
bool sdkWriteFile(const char* name, const T* data, unsigned size, const S epsilon, bool, bool append = false) {
    std::ofstream file(name, append ? std::ios::app : std::ios::out);
    file << "# " << epsilon << "\n";
    for (unsigned i = 0; i < size && file; ++i) file << data[i] << ' ';
    file << '\n';
    return static_cast<bool>(file);
}

// Whether no more than a part `threshold` of the elements differ by `epsilon` or more.
template <class T, class S>
bool compareData(const T* reference, const T* data, unsigned size, const S epsilon, const float threshold) {
    std::size_t wrong = 0;
    for (unsigned i = 0; i < size; ++i) {
        const float apart = static_cast<float>(reference[i]) - static_cast<float>(data[i]);
        wrong += !(apart <= epsilon && apart >= -epsilon);
    }
    return wrong == 0 || static_cast<float>(wrong) < threshold * static_cast<float>(size);
}
// Whether the distance is less than a part `epsilon` of the reference's length.
inline bool sdkCompareL2fe(const float* reference, const float* data, unsigned size, float epsilon) {
    float apart = 0, length = 0;
    for (unsigned i = 0; i < size; ++i) {
        apart += (reference[i] - data[i]) * (reference[i] - data[i]);
        length += reference[i] * reference[i];
    }
    return std::sqrt(length) >= 1e-7f && std::sqrt(apart) / std::sqrt(length) < epsilon;
}
// Whether less than a part `threshold` of the elements, or none where that is 0, differ by `epsilon` or more.
template <class T, class S>
bool compareDataAsFloatThreshold(const T* reference, const T* data, unsigned size, const S epsilon, const float threshold) {
    const float most = std::fmax(static_cast<float>(epsilon), 1e-3f);
    std::size_t wrong = 0;
    for (unsigned i = 0; i < size; ++i) wrong += !(std::fabs(static_cast<float>(reference[i]) - static_cast<float>(data[i])) < most);
    if (wrong != 0) printf("%4.2f(%%) of bytes mismatched (count=%zu)\n", 100.0 * static_cast<double>(wrong) / size, wrong);
    return wrong == 0 || static_cast<float>(wrong) < threshold * static_cast<float>(size);
}

inline void sdkDumpBin(void* data, unsigned bytes, const char* name) {
    std::ofstream file(name, std::ios::binary);
    file.write(static_cast<const char*>(data), bytes);
    if (!file) fprintf(stderr, "sdkDumpBin: %s cannot be written\n", name);
}
// A file of numbers against a reference, which is looked for beside the program.
template <class T>
bool wmmadiag_compare_files(const char* name, const char* reference, unsigned count, float epsilon, float threshold, const char* program) {
    const auto read = [count](const char* from, std::vector<T>& values) {
        std::ifstream file(from == nullptr ? "" : from, std::ios::binary);
        values.resize(count);
        return static_cast<bool>(file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(T))));
    };
    std::vector<T> own, expected;
    if (!read(name, own) || !read(sdkFindFilePath(reference, program), expected)) {
        printf("%s or %s cannot be read\n", name, reference);
        return false;
    }
    return compareDataAsFloatThreshold(expected.data(), own.data(), count, epsilon, threshold);
}
inline bool sdkCompareBin2BinFloat(const char* name, const char* reference, unsigned count, float epsilon, float threshold, char* program) {
    return wmmadiag_compare_files<float>(name, reference, count, epsilon, threshold, program);
}
inline bool sdkCompareBin2BinUint(const char* name, const char* reference, unsigned count, float epsilon, float threshold, char* program) {
    return wmmadiag_compare_files<unsigned>(name, reference, count, epsilon, threshold, program);
}
inline bool wmmadiag_compare_images(const char* name, const char* reference, float epsilon, float threshold, int channels) {
    unsigned char *own = nullptr, *expected = nullptr;
    unsigned w = 0, h = 0, w2 = 0, h2 = 0;
    if (!wmmadiag_load_image(name, &own, &w, &h, channels) || !wmmadiag_load_image(reference, &expected, &w2, &h2, channels) || w != w2 || h != h2) {
        fprintf(stderr, "%s or %s cannot be read, or their sizes differ\n", name, reference);
        return false;
    }
    const bool alike = compareDataAsFloatThreshold(expected, own, w * h * channels, epsilon, threshold);
    free(own);
    free(expected);
    return alike;
}
inline bool sdkComparePPM(const char* name, const char* reference, const float epsilon, const float threshold, bool) {
    return wmmadiag_compare_images(name, reference, epsilon, threshold, 4);
}
inline bool sdkComparePGM(const char* name, const char* reference, const float epsilon, const float threshold, bool) {
    return wmmadiag_compare_images(name, reference, epsilon, threshold, 1);
}
