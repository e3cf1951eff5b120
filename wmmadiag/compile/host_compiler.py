"""The machine's C++ compiler."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from wmmadiag.compile.host_headers import is_of_the_language
from wmmadiag.compile.missing import where_to_find
from wmmadiag.errors import CompileError, ConfigurationError
from wmmadiag.place import Place

_UNDEFINED = re.compile(r"(?:(?P<place>[^\s:()]+:\d+): )?undefined reference to [`'](?P<name>[^']+)'")
_ERROR = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<message>.*)$", re.M
)

_NO_MEMBER_OF_THRUST = re.compile(r"‘(\w+)’ (?:is not a member of|in namespace) ‘thrust’")
_NO_SYSTEM_OF_THRUST = re.compile(r"‘thrust::(\w+)’ has not been declared")
_FORGOTTEN = re.compile(r"is defined in header ‘<([\w./]+)>’")
_NO_MEMBER_OF_STD = re.compile(r"‘(\w+)’ (?:is not a member of|in namespace) ‘std’")
_NO_LIST = re.compile(r"no matching function for call to ‘(?:max|min|minmax)\(<brace-enclosed initializer list>")
"""Overloads of <algorithm> where other headers brought the others."""
_NAMES_OF_STD = {
    "algorithm": "adjacent_find all_of any_of binary_search clamp copy_backward copy_if copy_n count count_if "
    "equal_range find find_end find_first_of find_if find_if_not for_each for_each_n generate generate_n "
    "includes inplace_merge is_heap is_heap_until is_partitioned is_permutation is_sorted is_sorted_until "
    "lexicographical_compare lower_bound make_heap max_element merge min_element minmax minmax_element "
    "mismatch move_backward next_permutation none_of nth_element partial_sort partial_sort_copy partition "
    "partition_copy partition_point pop_heap prev_permutation push_heap remove remove_copy remove_copy_if "
    "remove_if replace replace_copy replace_copy_if replace_if reverse reverse_copy rotate rotate_copy "
    "sample search search_n set_difference set_intersection set_symmetric_difference set_union shift_left "
    "shift_right shuffle sort sort_heap stable_partition stable_sort swap_ranges transform unique "
    "unique_copy upper_bound",
    "iomanip": "get_money get_time put_money put_time quoted resetiosflags setbase setfill setiosflags setprecision "
    "setw",
    "numeric": "accumulate adjacent_difference exclusive_scan gcd inclusive_scan inner_product iota lcm midpoint "
    "partial_sum reduce transform_exclusive_scan transform_inclusive_scan transform_reduce",
    "random": "bernoulli_distribution binomial_distribution cauchy_distribution chi_squared_distribution "
    "default_random_engine discrete_distribution exponential_distribution extreme_value_distribution "
    "fisher_f_distribution gamma_distribution generate_canonical geometric_distribution knuth_b "
    "linear_congruential_engine lognormal_distribution mersenne_twister_engine minstd_rand minstd_rand0 "
    "mt19937 mt19937_64 negative_binomial_distribution normal_distribution "
    "piecewise_constant_distribution piecewise_linear_distribution poisson_distribution random_device "
    "ranlux24 ranlux48 seed_seq student_t_distribution uniform_int_distribution uniform_real_distribution "
    "weibull_distribution",
}
_OF_STD = {header: frozenset(names.split()) for header, names in _NAMES_OF_STD.items()}
"""Names that GCC misses without a word of their header → that."""
_READ = "-include"
_NEXT_STEP = "mend it, or give what it is compiled with elsewhere: -D NAME=TEXT, -I FOLDER, --std, -X=WORD"
_GONE = {
    "texture": "textures are not emulated: read through a pointer",
    "surface": "surfaces are not emulated: write through a pointer",
}
"""What the compiler misses → the next step where that is another one."""
_NEWER = re.compile(r"only available from C\+\+(\d\d) onwards")
_NO_FILE = re.compile(r"^(?P<name>\S+): No such file or directory$")
_LIBRARIES = {
    "cufftmp": "cuFFTMp", "cufft": "cuFFT", "cusolver": "cuSOLVER", "cusparse": "cuSPARSE",
    "cudnn": "cuDNN", "nccl": "NCCL",
    "npp": "NPP", "nvjpeg": "nvJPEG", "nvml": "NVML", "cublasxt": "cuBLASXt", "cublasmp": "cuBLASMp",
    "nvshmem": "NVSHMEM", "cufile": "cuFile", "cudss": "cuDSS", "cupti": "CUPTI", "nvtiff": "nvTIFF",
    "cutensor": "cuTENSOR", "curand_mtgp32": "cuRAND's MTGP32", "gl/": "OpenGL", "glfw": "OpenGL", "vulkan/": "Vulkan",
}  # fmt: skip
"""The beginning of a header's name, in small letters → the library of the GPU that it is of, which is not offered."""


@functools.cache
def host_compiler() -> str:
    """The C++ compiler: `CXX`, else g++, c++ or clang++.

    Raises:
        ConfigurationError: there is none.
    """
    for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise ConfigurationError(
        "a program's host code needs a C++ compiler, and there is none",
        hint="install one (Debian, Ubuntu: apt install g++), or name it in CXX",
    )


@functools.cache
def compiler_version(compiler: str) -> str:
    """What it says of itself."""
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[
        0
    ]


@functools.cache
def is_gcc(compiler: str) -> bool:
    """Whether it is GCC's, whatever it is called by: others call themselves by its macros, too."""
    asked = [compiler, "-dM", "-E", "-x", "c++", os.devnull]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return "#define __GNUC__" in said and "#define __clang__" not in said and "#define __INTEL" not in said


def run_compiler(command: Sequence[str], source: str) -> None:
    """Run a command of the compiler or its linker.

    Raises:
        CompileError: it failed: at the line that it names, or with the functions that are not defined.
    """
    log = _run(command)
    if log is not None:
        raise _refusal(log, command, source)


def _run(command: Sequence[str]) -> str | None:
    """What a command said that failed; None: it did not."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return None if done.returncode == 0 else done.stderr or done.stdout


def _refusal(log: str, command: Sequence[str], source: str) -> CompileError:
    missing = {found["name"]: found["place"] or "" for found in _UNDEFINED.finditer(log)}
    if missing:
        listed = "\n".join(f"  {name}" + (f"  ({place})" if place else "") for name, place in missing.items())
        return CompileError(
            f"{source}: the program uses functions that are not offered here: {', '.join(missing)}",
            detail=listed,
            hint="docs/programs.md lists what runs; functions of your own must be in one of the sources given",
        )
    first = _ERROR.search(log)
    place = Place(first["file"], int(first["line"]), int(first["column"] or 0)) if first else None
    said = next((line for line in log.splitlines() if line.strip()), "it failed and said nothing")
    message = first["message"] if first else f"{Path(command[0]).name}: {said}"
    newer = [int(one) for one in _NEWER.findall(log)]
    hint = f"compile it as C++{max(newer)}: --std c++{max(newer)}" if newer else _next_step(message, place)
    return CompileError(f"host code: {message}", place=place, detail=log[-4000:], hint=hint)


def _next_step(message: str, place: Place | None) -> str:
    missing = _NO_FILE.match(message)
    if missing and place is not None:
        name = missing["name"]
        library = next((one for begin, one in _LIBRARIES.items() if name.lower().startswith(begin)), "")
        if library:
            return f"{library} is not offered here: docs/programs.md lists the libraries that are"
        if is_of_the_language(name):
            return f"{compiler_version(host_compiler())} has no <{name}>: name a newer C++ compiler in CXX"
        return where_to_find(name, place.file)
    return next((step for word, step in _GONE.items() if re.search(rf"[‘'`]{word}\b", message)), _NEXT_STEP)


def run_with_help(command: Sequence[str], source: str) -> list[str]:
    """Compile with GCC what nvcc's front end, or the standard library of an older GCC, takes.

    Returns:
        What the user should know of how it was compiled.

    Raises:
        CompileError: as `run_compiler`.
    """
    helped = list(command)
    while (log := _run(helped)) is not None:
        more = [one for one in _help(log, command) if one not in helped]
        if not more:
            raise _refusal(log, helped, source)
        helped += more
    read = [one.removeprefix(_READ) for one in helped[len(command) :] if one.startswith(_READ)]
    listed = ", ".join(f"<{one}>" for one in read if not one.startswith("thrust/"))
    return [f"{source} uses what {listed} declares and does not include it: it was read"] if listed else []


def _help(refusal: str, command: Sequence[str]) -> Iterator[str]:
    """Words for the compiler that mend what it refused."""
    # A class gives a name that it used another meaning: nvcc's front end names it in full.
    if "changes meaning of" in refusal:
        yield "-fpermissive"
    # Headers of the standard library read one another, fewer with each version of it.
    forgotten = _FORGOTTEN.findall(refusal)
    known = [
        header for name in _NO_MEMBER_OF_STD.findall(refusal) for header, names in _OF_STD.items() if name in names
    ]
    lists = ["algorithm"] if _NO_LIST.search(refusal) else []
    for header in dict.fromkeys([*forgotten, *known, *lists]):
        yield f"{_READ}{header}"
    # nvcc's Thrust reads more of its own headers than the one for the host does.
    folders = [Path(one[2:]) for one in command if one.startswith("-I")]
    for name in dict.fromkeys(_NO_SYSTEM_OF_THRUST.findall(refusal)):
        policies = f"thrust/system/{name}/execution_policy.h"
        if any((folder / policies).is_file() for folder in folders):
            yield f"{_READ}{policies}"
    for name in dict.fromkeys(_NO_MEMBER_OF_THRUST.findall(refusal)):
        # What brings a name as it is does so for its own sake; a call of a member is no declaration.
        brought = re.compile(rf"\b(?:struct|class|using) {name}\b|\busing [\w:]*::{name};")
        declared = re.compile(rf"(?<![.>]){name}\(")
        for folder in folders:
            all_of_them = (one for inner in ("thrust", "thrust/iterator") for one in (folder / inner).glob("*.h"))
            headers = sorted(all_of_them, key=lambda one: (one.stem != name, one.name))
            texts = {one: one.read_text("utf-8", "replace") for one in headers}
            holding = (one for what in (brought, declared) for one, text in texts.items() if what.search(text))
            found = next(holding, None)
            if found is not None:
                yield f"{_READ}{found.relative_to(folder).as_posix()}"
                break


def one_main(sources: Sequence[str], objects: Sequence[Path]) -> None:
    """Refuse a program with two beginnings, of which the linker, which takes what is defined twice, would choose one.

    Raises:
        CompileError: there are two.
    """
    begins = []
    for name, made in zip(sources, objects, strict=True) if len(objects) > 1 else ():
        listed = subprocess.run(["nm", "--defined-only", str(made)], capture_output=True, text=True, check=True).stdout
        begins += [name] if re.search(r" T main$", listed, re.M) else []
    if len(begins) > 1:
        raise CompileError(
            f"{begins[1]}: a second main function; the first is in {begins[0]}",
            hint="give the sources of one program alone",
        )
