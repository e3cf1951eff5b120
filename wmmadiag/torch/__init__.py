"""Torch extensions without a GPU: `load` as in `torch.utils.cpp_extension`, with kernels on the emulator.

    import wmmadiag.torch

    ext = wmmadiag.torch.load("attention", ["binding.cpp", "kernels.cu"])
    out = ext.forward(q, k, v)            # CPU tensors; what the checks find is raised

The binding is compiled unchanged against the headers of the torch that is installed: CPU tensors answer that they are
CUDA's, the current stream and device guards exist, and launches run on the emulator in the tensors' own memory. From
the first `load` on, `.cuda()` and `device="cuda"` mean the CPU in this process. Torch is imported here alone.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import re
import sys
import sysconfig
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wmmadiag.compile import cache
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import ConfigurationError
from wmmadiag.programs.build import build
from wmmadiag.programs.extension import InProcess, KernelFindings, wrapped
from wmmadiag.programs.shipped import NATIVE
from wmmadiag.programs.spec import ProgramSpec

# Sources that stand in Python as text, as `torch.utils.cpp_extension.load_inline` takes them, written to files.


_CPP_HEADERS = ("#include <torch/extension.h>",)
_CUDA_HEADERS = ("#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>")


def inline_files(
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str],
    functions: str | Sequence[str] | Mapping[str, str] | None,
    *,
    error_handling: bool,
    headers: bool,
) -> list[Path]:
    """The files of an extension: one in C++ with the module's definition, and one in CUDA where there is any.

    Args:
        functions: that the module has, with what is said of each; None: the sources define it themselves.
        error_handling: whether exceptions of torch become those of Python.
        headers: whether those that torch includes by itself come first.
    """
    cpp = [*(_CPP_HEADERS if headers else ()), *_several(cpp_sources)]
    if functions is not None:
        named = functions if isinstance(functions, Mapping) else {one: one for one in _several(functions)}
        cpp.append("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {")
        for name, said in named.items():
            called = f"torch::wrap_pybind_function({name})" if error_handling else name
            cpp.append(f'm.def("{name}", {called}, "{said}");')
        cpp.append("}")
    texts = {"main.cpp": "\n".join(cpp) + "\n"}
    if cuda := _several(cuda_sources):
        texts["cuda.cu"] = "\n".join([*(_CUDA_HEADERS if headers else ()), *cuda]) + "\n"
    folder = cache.cache_folder() / "torch" / "inline" / cache.digest([*texts, *texts.values()])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        if not (folder / name).is_file():
            (folder / name).write_text(text, "utf-8")
    return [folder / name for name in texts]


def _several(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


__all__ = ["KernelFindings", "load", "load_inline"]

_PATCHES = (
    ("DeviceType.h", "constexpr DeviceType kCUDA = DeviceType::CUDA;", "constexpr DeviceType kCUDA = DeviceType::CPU;"),
    ("Device.h", "return type_ == DeviceType::CUDA;", "return type_ == DeviceType::CUDA || type_ == DeviceType::CPU;"),
)
"""File of torch's headers, what stands there once, what an extension reads instead: the device is the CPU."""

_NO_EFFECT = re.compile(
    r"-O\d|-g|-G|-lineinfo|-w|-t=?\d*|--?(gencode|arch|threads|ptxas-options|expt-|generate-line-info)|-X|-U|-W"
)
"""Flags of nvcc that change nothing here: optimisation, targets, warnings, limits that torch sets on operators."""


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ConfigurationError(
            "torch is not installed", detail=str(error), hint="pip install 'wmmadiag[torch]' (the CPU build will do)"
        ) from None
    return torch


def load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
    *,
    arch: str = "sm_90",
    checks: str = "default",
) -> types.ModuleType:
    """Build and import an extension, with the signature of `torch.utils.cpp_extension.load`.

    Args:
        name: of the module.
        sources: `.cpp` and `.cu` files.
        extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths: as in torch; flags of nvcc that choose
            targets or optimise have no meaning here.
        build_directory, verbose, with_cuda, keep_intermediates: of no effect; what is built is kept in the cache.
        extra_sycl_cflags, with_sycl, is_standalone: refused. is_python_module: must be true.
        arch: the device that the extension sees.
        checks: what is watched in each launch, as for `wmmadiag run --checks`.

    Returns:
        The module. A call raises `KernelFindings` where a check found an error, and warns of what is fragile.

    Raises:
        ConfigurationError: torch or a C++ compiler is missing, or an argument that means nothing here.
        CompileError: the compiler refused a source.
    """
    del build_directory, verbose, with_cuda, keep_intermediates
    if extra_sycl_cflags or with_sycl or is_standalone or not is_python_module:
        raise ConfigurationError(
            f"{name}: only extensions that are Python modules are loaded",
            hint="leave out is_python_module=False, is_standalone and SYCL; TORCH_LIBRARY needs a PYBIND11_MODULE, too",
        )
    torch = _torch()
    paths = [Path(one) for one in ([sources] if isinstance(sources, str) else sources)]
    options = _options(arch, list(extra_cuda_cflags or ()), [Path(one) for one in extra_include_paths or ()])
    late = [*_late_options(torch, name), *(extra_cflags or ()), *(extra_ldflags or ())]
    program = build(
        [*paths, NATIVE / "torch" / "memory.cpp"], options, host_options=_host_options(torch), late_options=late
    )
    spec = ProgramSpec(options, checks=checks, every_launch=True)
    served = InProcess(spec, program.library.parent, program.runtime)
    module = _imported(name, program.library)
    ctypes.CDLL(str(program.library)).wmmadiag_torch_begin()
    _cuda_is_the_cpu(torch, served.properties)
    return wrapped(module, served, lambda called, arguments: _name_tensors(torch, served, called, arguments))


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    *,
    with_pytorch_error_handling: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
    **others: Any,
) -> types.ModuleType:
    """Build and import an extension of texts, with the signature of `torch.utils.cpp_extension.load_inline`.

    Args:
        name: of the module.
        cpp_sources, cuda_sources: texts; lines of messages are those of the files that they are written to, in the
            cache: behind one line in C++, three in CUDA, which torch puts before them.
        sycl_sources: refused. use_pch: of no effect.
        functions: that the module has; a mapping says what each does.
        with_pytorch_error_handling, no_implicit_headers: as in torch.
        others: of `load`.

    Returns:
        The module, as `load` does.

    Raises:
        ConfigurationError: torch or a C++ compiler is missing, or an argument that means nothing here.
        CompileError: the compiler refused a source.
    """
    del use_pch
    if sycl_sources:
        raise ConfigurationError(f"{name}: SYCL is not emulated", hint="leave out sycl_sources")
    files = inline_files(
        cpp_sources, cuda_sources or (), functions,
        error_handling=with_pytorch_error_handling, headers=not no_implicit_headers,
    )  # fmt: skip
    return load(name, [str(one) for one in files], **others)


def _options(arch: str, flags: list[str], include_paths: list[Path]) -> CompileOptions:
    macros: dict[str, str] = {}
    extra: list[str] = []
    std = "c++20"
    words = iter(flags)
    for word in words:
        if word.startswith("-D"):
            key, _, value = (word[2:] or next(words, "")).partition("=")
            macros[key] = value or "1"
        elif word.startswith("-I"):
            include_paths.append(Path(word[2:] or next(words, "")))
        elif word.startswith(("-std=", "--std=")):
            std = max(std, word.partition("=")[2].replace("gnu", "c"))
        elif word in ("--use_fast_math", "-use_fast_math"):
            extra.append("--use_fast_math")
        elif _NO_EFFECT.match(word):
            if word in ("-gencode", "--generate-code", "-arch", "-Xptxas", "-Xcompiler", "--threads", "-t"):
                next(words, "")
        else:
            raise ConfigurationError(
                f"the flag {word} of nvcc is not known here", hint="leave it out of extra_cuda_cflags"
            )
    return CompileOptions(arch=arch, macros=macros, include_paths=tuple(include_paths), std=std, extra=tuple(extra))


def _host_options(torch: Any) -> list[str]:
    root = Path(torch.__file__).parent
    includes = [
        root / "include",
        root / "include" / "torch" / "csrc" / "api" / "include",
        sysconfig.get_path("include"),
    ]
    return [
        "-DWMMADIAG_TORCH", "-DTORCH_API_INCLUDE_EXTENSION_H",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{_patched(root)}", f"-I{NATIVE / 'torch'}",
        *(f"-isystem{one}" for one in includes), "-fvisibility=hidden",
    ]  # fmt: skip


def _late_options(torch: Any, name: str) -> list[str]:
    libraries = Path(torch.__file__).parent / "lib"
    return [
        f"-DTORCH_EXTENSION_NAME={name}", f"-L{libraries}", f"-Wl,-rpath,{libraries}",
        "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-ltorch_python",
        "-lc10", "-Wl,-z,undefs", "-Wl,-z,now",
    ]  # fmt: skip


def _patched(root: Path) -> Path:
    """The folder of those headers of this torch that an extension reads in another wording."""
    include = root / "include"
    made: dict[Path, str] = {}
    for file, old, new in _PATCHES:
        found = [one for one in include.rglob(f"core/{file}") if old in one.read_text("utf-8")]
        if not found:
            raise ConfigurationError(
                f"the headers of this torch are not known: {file} does not hold `{old}`",
                hint="this was written for torch 2.15: install that, or say so in an issue",
            )
        made |= {one.relative_to(include): one.read_text("utf-8").replace(old, new) for one in found}
    folder = (
        cache.cache_folder() / "torch" / cache.digest([str(root), *(f"{path}{text}" for path, text in made.items())])
    )
    for path, text in made.items():
        target = folder / path
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
    return folder


def _imported(name: str, library: Path) -> types.ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(library))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    flags = sys.getdlopenflags()
    sys.setdlopenflags(InProcess.mode)
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"{name}: the extension cannot be imported", detail=str(error),
            hint="an undefined symbol is a function that is not offered; docs/programs.md lists what is",
        ) from None  # fmt: skip
    finally:
        sys.setdlopenflags(flags)
    return module


def _name_tensors(torch: Any, served: InProcess, called: str, arguments: tuple[Any, ...]) -> None:
    """Messages call tensors by their place among the arguments; their memory must be the runtime's."""
    for number, one in enumerate(arguments, 1):
        if not isinstance(one, torch.Tensor) or one.numel() == 0:
            continue
        shape = "×".join(map(str, one.shape))
        text = f"argument {number} of {called} ({str(one.dtype).removeprefix('torch.')} {shape})".encode()
        storage = ctypes.c_void_p(one.untyped_storage().data_ptr())
        if not served.runtime.wmmadiag_tensor_name(storage, text, ctypes.c_size_t(one.element_size())) & 1:
            raise ConfigurationError(
                f"argument {number} of {called} lies in memory that the emulator does not know",
                hint="make the tensor after wmmadiag.torch.load, or pass a copy: x.clone()",
            )


def _cuda_is_the_cpu(torch: Any, properties: dict[str, int]) -> None:
    """From now on `.cuda()` and `device="cuda"` mean the CPU, for all that this process asks of torch."""
    if getattr(torch, "_wmmadiag", False):
        return

    def cpu(value: Any) -> Any:
        if isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value):
            return "cpu"
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value

    class CudaIsTheCpu(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, kinds: Any, arguments: Any = (), words: Any = None) -> Any:
            del kinds
            if function is torch.Tensor.cuda:
                return arguments[0].clone()
            if function == torch.Tensor.is_cuda.__get__:  # made anew at each access
                return True
            return function(*map(cpu, arguments), **{key: cpu(value) for key, value in (words or {}).items()})

    CudaIsTheCpu().__enter__()
    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "synchronize": None, "empty_cache": None,
        "get_device_capability": (properties["major"], properties["minor"]),
    }  # fmt: skip
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, _answer=answer, **__: _answer)
    torch._wmmadiag = True
