"""What kernels get and use of the standard library: laid out as the host has it, and what is constexpr."""

from __future__ import annotations

from pathlib import Path

from command import run_program

VALUES = r"""#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
struct Padded { char c; std::tuple<char, double, short> t; char d; };
using Nested = std::tuple<std::tuple<char, int>, char>;
template <class... Ts> __global__ void sizes(size_t* s, Ts... ts) {
    size_t found[] = {sizeof(Ts)...};
    for (size_t i = 0; i < sizeof...(Ts); ++i) s[i] = found[i];
}
__global__ void k(double* out, std::tuple<int, char, double> t, std::pair<float, int> p, std::array<int, 3> a,
                  Padded all, std::optional<int> some, std::span<const int> part) {
    auto [i, c, d] = t;
    const auto& [f, n] = p;
    auto& [x, y, z] = a;
    double rest = 0;
    for (int one : part) rest += one;
    out[0] = i + 10 * c + 100 * d;
    out[1] = f + 10 * n;
    out[2] = x + 10 * y + 100 * z;
    out[3] = std::get<0>(all.t) + 10 * std::get<1>(all.t) + 100 * std::get<short>(all.t) + 1000 * all.d;
    out[4] = some.value_or(3) + 10 * rest;
    int low, high;
    std::tie(low, high) = std::make_tuple(4, 5);
    out[5] = std::apply([](auto... v) { return (v + ...); }, std::tuple_cat(t, std::tie(low, high)));
}
int main() {
    double* out;
    int* ints;
    size_t* s;
    cudaMallocManaged(&out, 6 * sizeof(double));
    cudaMallocManaged(&ints, 3 * sizeof(int));
    cudaMallocManaged(&s, 7 * sizeof(size_t));
    for (int i = 0; i < 3; ++i) ints[i] = i + 1;
    std::tuple<int, char, double> t{1, 2, 3.5};
    std::pair<float, int> p{4.5f, 6};
    k<<<1, 1>>>(out, t, p, {7, 8, 9}, {1, {2, 3.5, 4}, 5}, 2, {ints, 3});
    sizes<<<1, 1>>>(s, t, p, Padded{}, std::tuple<>{}, Nested{}, int_fast16_t{}, int_fast8_t{});
    cudaDeviceSynchronize();
    for (int i = 0; i < 6; ++i) std::printf("%g ", out[i]);
    size_t want[] = {sizeof t,       sizeof p, sizeof(Padded), sizeof(std::tuple<>),
                     sizeof(Nested), sizeof(int_fast16_t),     sizeof(int_fast8_t)};
    for (int i = 0; i < 7; ++i) std::printf("%d", s[i] == want[i]);
    std::puts("");
}
"""


def test_values_of_the_standard_library_reach_a_kernel_as_they_are(tmp_path: Path) -> None:
    done = run_program(tmp_path, VALUES, "--std=c++20")
    assert (done.stdout, done.returncode) == ("371 64.5 987 5437 62 15.5 1111111\n", 0), done.stderr
