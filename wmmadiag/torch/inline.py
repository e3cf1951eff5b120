"""Sources that stand in Python as text, as `torch.utils.cpp_extension.load_inline` takes them, written to files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wmmadiag.compile import cache

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
