"""Headers of the standard library that others brought once: read, and told."""

from __future__ import annotations

from pathlib import Path

from command import run_program

FORGOTTEN = r"""#include <iostream>
#include <map>
struct Freed { void operator()(float* p) const { cudaFree(p); } };
int main() {
    float* p;
    cudaMalloc(&p, 64);
    std::unique_ptr<float, Freed> held(p);
    std::map<int, std::shared_ptr<int>> shared{{1, std::make_shared<int>(41)}};
    int one[1];
    std::copy_n(&*shared[1], 1, one);
    std::cout << *one + std::clamp(9, 0, 1) + std::max({-3, 0, -1}) << std::endl;
}
"""


def test_a_header_that_was_forgotten_is_read_and_told(tmp_path: Path) -> None:
    for _ in range(2):  # compiled, and from the cache
        done = run_program(tmp_path, FORGOTTEN)
        assert (done.stdout, done.returncode) == ("42\n", 0), done.stderr
        assert "<memory>" in done.stderr and "program.cu uses what" in done.stderr


def test_what_no_header_declares_is_refused_as_before(tmp_path: Path) -> None:
    done = run_program(tmp_path, "#include <cstdio>\nint main() {\n    std::no_such_thing<int> x;\n}\n")
    assert done.returncode == 2 and "program.cu:3" in done.stderr


def test_what_a_later_standard_has_names_that(tmp_path: Path) -> None:
    text = (
        "#include <source_location>\nint f(const std::source_location where) { return where.line(); }\nint main() {}\n"
    )
    done = run_program(tmp_path, text)
    assert done.returncode == 2 and "next: compile it as C++20: --std c++20" in done.stderr


def test_a_name_of_thrust_is_read_from_the_header_that_brings_it(tmp_path: Path) -> None:
    text = (
        "#include <thrust/host_vector.h>\n#include <thrust/iterator/zip_iterator.h>\n#include <cstdio>\nint main() {\n"
        "    thrust::host_vector<int> a(2, 3), b(2, 4);\n"
        "    auto both = thrust::make_zip_iterator(a.begin(), b.begin());\n"
        '    std::printf("%d\\n", thrust::get<1>(both[1]));\n}\n'
    )
    done = run_program(tmp_path, text)
    assert (done.stdout, done.returncode) == ("4\n", 0), done.stderr


def test_an_iterator_of_thrust_is_read_from_its_header(tmp_path: Path) -> None:
    text = (
        "#include <thrust/device_vector.h>\n#include <thrust/reduce.h>\n#include <cstdio>\nint main() {\n"
        "    thrust::device_vector<int> keys(4, 7), to(4), counts(4);\n"
        "    auto one = thrust::make_constant_iterator(1);\n"
        "    thrust::reduce_by_key(keys.begin(), keys.end(), one, to.begin(), counts.begin());\n"
        '    std::printf("%d\\n", (int)counts[0]);\n}\n'
    )
    done = run_program(tmp_path, text)
    assert (done.stdout, done.returncode) == ("4\n", 0), done.stderr
