"""Headers that hold nothing for device code: taken as empty wherever they are not the user's own files."""

from __future__ import annotations

from pathlib import Path

from wmmadiag.compile.read import is_file

STUBS = Path(__file__).parent / "stubs"

# ISO C++23 library headers without a stub, and POSIX ones.
_STANDARD_NAMES = """
any atomic barrier bitset charconv chrono codecvt compare complex condition_variable coroutine csetjmp csignal
cstdarg ctime cuchar cwchar cwctype deque exception execution expected filesystem format forward_list fstream
future generator iomanip ios iosfwd iostream istream iterator latch list locale map memory memory_resource
mutex numeric optional ostream print queue random ranges ratio regex scoped_allocator semaphore set
shared_mutex source_location span spanstream sstream stack stacktrace stdexcept stop_token streambuf string
string_view strstream syncstream system_error thread tuple typeindex typeinfo unordered_map unordered_set
valarray variant vector cerrno errno.h cfenv fenv.h cinttypes inttypes.h ciso646 clocale locale.h setjmp.h
signal.h stdarg.h time.h wchar.h wctype.h ctype.h cctype unistd.h pthread.h fcntl.h dlfcn.h malloc.h memory.h
getopt.h strings.h dirent.h libgen.h windows.h omp.h mpi.h immintrin.h x86intrin.h xmmintrin.h emmintrin.h
intrin.h stdbool.h alloca.h execinfo.h cxxabi.h
"""
_STANDARD = frozenset(_STANDARD_NAMES.split())
# CUDA libraries and tools whose interface is called by the host, and the helpers of the CUDA samples.
_CUDA_HOST_NAMES = """
cublas_v2.h cublas.h cublasLt.h cublasXt.h cudnn.h cusparse.h cusolverDn.h cusolver_common.h cufft.h curand.h nccl.h
nvml.h
cuda_profiler_api.h cudaProfiler.h nvToolsExt.h nvToolsExtCudaRt.h nvtx3/nvToolsExt.h nvrtc.h
helper_cuda.h helper_cuda_drvapi.h nvrtc_helper.h helper_functions.h helper_string.h helper_timer.h helper_image.h
cuda_gl_interop.h cudnn_frontend.h
driver_functions.h channel_descriptor.h math_functions.h cuda_texture_types.h cuda_surface_types.h
surface_functions.h texture_fetch_functions.h
cufftXt.h cufftw.h cub/util_allocator.cuh cub/iterator/counting_input_iterator.cuh
cub/iterator/constant_input_iterator.cuh cub/iterator/transform_input_iterator.cuh
cub/iterator/discard_output_iterator.cuh
"""
_CUDA_HOST = frozenset(_CUDA_HOST_NAMES.split())
# What those headers include besides, and sources rely on: cublas_api.h (CUDA 13), which the others read.
_BROUGHT = dict.fromkeys(
    ("cublas_v2.h", "cublas.h", "cublasLt.h", "cublasXt.h", "cusparse.h", "cusolverDn.h"),
    b"#include <cuComplex.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <library_types.h>\n",
)
# Classes that may be members of those that device code uses.
_HELD = "string vector list deque map set unordered_map unordered_set memory iostream sstream fstream"
_BROUGHT |= dict.fromkeys(_HELD.split(), b"#include <wmmadiag_host_types.h>\n")
# Kernels scale and filter what is transformed.
_BROUGHT["cufft.h"] = _BROUGHT["cufftXt.h"] = b"""#include <cuComplex.h>
#include <library_types.h>
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
typedef int cufftHandle;
#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1
"""
# Of Thrust, what the compiler for device code takes as it is: types that kernels use, and what their headers read.
_OF_KERNELS = (
    "thrust/complex.h", "thrust/pair.h", "thrust/tuple.h", "thrust/random.h", "thrust/random/", "thrust/detail/",
    "thrust/type_traits/", "thrust/iterator/",
)  # fmt: skip
_HOST_FOLDERS = (
    "ATen/ torch/ c10/ caffe2/ pybind11/ nanobind/ cub/device/ thrust/ gtest/ gmock/ benchmark/ boost/ fmt/ "
    "spdlog/ absl/ Eigen/ opencv2/ sys/ nvtx3/ nlohmann/"
)
_PREFIXES = tuple(_HOST_FOLDERS.split())


def is_host_header(name: str) -> bool:
    """Whether `#include <name>` brings nothing that device code could use."""
    if name in _STANDARD or name in _CUDA_HOST:
        return True
    if name.startswith(("torch/wmmadiag", "c10/util/wmmadiag", *_OF_KERNELS)):
        return False
    return name.startswith(_PREFIXES) and not is_file(STUBS / name)  # device code uses what there is a stub for


def is_of_the_language(name: str) -> bool:
    """Whether a header is one of C++'s own library, which comes with the compiler: `<format>`."""
    return "." not in name and name in _STANDARD


def brought(name: str) -> bytes:
    """The text that stands for such a header in device code."""
    if name.startswith("thrust/"):
        return b"#include <thrust/device_ptr.h>\n"
    return _BROUGHT.get(name, b"")
