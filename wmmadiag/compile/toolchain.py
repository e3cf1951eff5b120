"""Where NVRTC and the CUDA headers are: PyPI wheels, or whatever else cuda.pathfinder finds, such as a toolkit.

Nothing here needs a driver, and nothing CUDA is imported before the first call.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from wmmadiag.compile.nvrtc_library import NvrtcLibrary
from wmmadiag.errors import ConfigurationError, lacking_of


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What a compilation by NVRTC runs on."""

    version: tuple[int, int]  # of NVRTC, (major, minor)
    arches: tuple[int, ...]  # the targets that it has, as numbers (75, 80, …)
    includes: tuple[Path, ...]  # folders with the CUDA headers, then CCCL's

    @property
    def name(self) -> str:
        """ "NVRTC 13.5" """
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    def fingerprint(self) -> tuple[str, ...]:
        """What identifies compiler and headers in the cache key."""
        return (self.name, *_header_stamp(self.includes))


def _missing(what: str, cause: BaseException | None = None) -> ConfigurationError:
    return ConfigurationError(
        f"{what} not found",
        detail=str(cause) if cause else "",
        hint=(
            "pip install 'cuda-bindings>=13,<14' nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl"
            " (or set CUDA_HOME to an installed toolkit)"
        ),
    )


@functools.cache
def nvrtc_library() -> NvrtcLibrary:
    """NVRTC, loaded.

    Raises:
        ConfigurationError: it is not installed; the hint is the command that installs it.
    """
    own = in_wheels("lib/libnvrtc.so.*[0-9]")
    if own is not None:
        try:
            return NvrtcLibrary(str(own))
        except OSError as error:
            if lacking_of(error):  # it is there, and no memory is
                raise
    try:
        from cuda import pathfinder

        return NvrtcLibrary(str(pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path))
    except ImportError as error:
        raise _missing("cuda-pathfinder (the package `cuda.pathfinder`)", error) from None
    except Exception as error:  # pathfinder has its own error types
        if lacking_of(error):
            raise
        raise _missing("the NVRTC library", error) from None


def in_wheels(pattern: str) -> Path | None:
    """The one file of NVIDIA's wheels, in the folder of packages where cuda.pathfinder looks first, that is called so.

    Importing cuda.pathfinder costs more than a small kernel's compilation; None where it has to choose.
    """
    folders = (Path(one) / "nvidia" for one in sys.path if one)
    first = next((one for one in folders if one.is_dir()), None)
    found = list(first.glob(f"*/{pattern}")) if first is not None else []
    return found[0] if len(found) == 1 else None


def _header_folder(component: str, header: str) -> Path | None:
    for prefix in ("include", "include/cccl"):
        own = in_wheels(f"{prefix}/{header}")
        if own is not None:
            return own.parents[header.count("/")]
    from cuda import pathfinder

    try:
        found = pathfinder.find_nvidia_header_directory(component)
    except Exception:  # an unknown component name in an older pathfinder
        found = None
    if found and (Path(found) / header).exists():
        return Path(found)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        root = os.environ.get(variable)
        for folder in ("include", "include/cccl"):
            if root and (Path(root) / folder / header).exists():
                return Path(root) / folder
    return None


@functools.cache
def toolchain() -> Toolchain:
    """NVRTC and its headers on this machine.

    Raises:
        ConfigurationError: a part is missing; the hint is the command that installs it.
    """
    nvrtc = nvrtc_library()
    # The runtime's package may be there without the compiler's headers, and a toolkit have both.
    runtime = _header_folder("cudart", "crt/mma.h") or _header_folder("cudart", "cuda_runtime.h")
    if runtime is None:
        raise _missing("the CUDA runtime headers (cuda_runtime.h)")
    if not (runtime / "crt" / "mma.h").exists():
        raise _missing("the CUDA compiler headers (crt/mma.h)")
    includes = [runtime]
    cccl = _header_folder("cccl", "cuda/std/cstdint")
    if cccl is not None and cccl not in includes:
        includes.append(cccl)
    return Toolchain(nvrtc.version(), nvrtc.arches(), tuple(includes))


def check_arch(arch: str, tools: Toolchain) -> None:
    """Refuse a target that this NVRTC does not have.

    Raises:
        ConfigurationError: lists the targets that there are.
    """
    number = int(arch.removeprefix("sm_").rstrip("af"))
    if number not in tools.arches:
        raise ConfigurationError(
            f"{tools.name} cannot compile for {arch}",
            detail="it has " + ", ".join(f"sm_{known}" for known in tools.arches),
            hint="choose one of these with --arch"
            + ("; NVRTC 12 still has the older ones" if number < min(tools.arches) else ""),
        )


@functools.cache
def _header_stamp(folders: tuple[Path, ...]) -> tuple[str, ...]:
    """Folder and content of the headers that every CUDA release changes: a new toolkit gives a new key.

    Not their times: a CI's fresh installation of the same release must find what is cached.
    """
    stamps = []
    for folder in folders:
        stamps.append(str(folder))
        for name in ("cuda_runtime_api.h", "crt/mma.hpp", "cuda_fp16.hpp", "cuda/std/__cccl/version.h"):
            try:
                data = (folder / name).read_bytes()
            except OSError:
                continue
            stamps.append(f"{name}:{hashlib.sha256(data).hexdigest()}")
    return tuple(stamps)


def nvrtc_version() -> str:
    """Version of the NVRTC that compiles here, to the last number where its package tells; "" where there is none."""
    from importlib import metadata

    try:
        library = nvrtc_library()
        version = "{}.{}".format(*library.version())
    except ConfigurationError:
        return ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        package = metadata.distribution("nvidia-cuda-nvrtc")
        root = Path(str(package.locate_file(""))).resolve()
        if package.version.startswith(f"{version}.") and Path(library.path).resolve().is_relative_to(root):
            return package.version
    return version
