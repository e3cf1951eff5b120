"""Functions of the driver by their names, at run time."""

from __future__ import annotations

from pathlib import Path

from command import run_program

ENTRIES = r"""#include <cuda.h>
#include <cstdio>
int main() {
    cudaFree(nullptr);
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuMemGetInfo", &entry, 12000, cudaEnableDefault, &found);
    size_t left = 0, total = 0;
    ((CUresult (*)(size_t *, size_t *))entry)(&left, &total);
    printf("%d %d ", found, total > 0);
    cudaGetDriverEntryPointByVersion("cuNothing", &entry, 12000, cudaEnableDefault, &found);
    printf("%d %d ", found, entry == nullptr);
    cudaGetDriverEntryPointByVersion("cuEventElapsedTime", &entry, 12000, cudaEnableDefault, &found);
    printf("%d\n", found);
    return cudaGetLastError();
}
"""
LIBRARY = """int main() {
    cudaLibrary_t library;
    return cudaLibraryLoadData(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
"""


def test_functions_of_the_driver_by_their_names(tmp_path: Path) -> None:
    done = run_program(tmp_path, ENTRIES)
    assert (done.stdout, done.returncode) == ("0 1 1 1 2\n", 0), done.stderr
    assert "nothing found" in done.stderr


def test_libraries_of_kernels_are_refused_by_name(tmp_path: Path) -> None:
    done = run_program(tmp_path, LIBRARY)
    assert done.returncode == 2 and "functions that are not offered here: cudaLibraryLoadData" in done.stderr
    assert "program.cu:3" in done.stderr
