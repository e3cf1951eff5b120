"""nvcc in NVRTC's place, where the user has one: it takes host code as it is."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wmmadiag.compile.diagnostics import error_from, error_hint, errors_in
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place

_VERSION = re.compile(r"release (\d+)\.(\d+)")
_HOST_ERROR = re.compile(r"^(.+?):(\d+):(\d+): (?:fatal )?error: (.*)$", re.MULTILINE)
_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Nvcc:
    """An nvcc that was found: its path, version and the targets it has ("sm_75", …)."""

    path: str
    version: tuple[int, int]
    arches: tuple[str, ...]

    @property
    def name(self) -> str:
        """ "nvcc 13.0" """
        return f"nvcc {self.version[0]}.{self.version[1]}"


def find_nvcc() -> Nvcc | None:
    """The nvcc of CUDA_HOME, CUDA_PATH or PATH, if one works."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        root = os.environ.get(variable)
        candidate = Path(root) / "bin" / "nvcc" if root else None
        if candidate is not None and candidate.exists():
            return _describe(str(candidate))
    found = shutil.which("nvcc")
    return _describe(found) if found else None


@functools.cache
def _describe(path: str) -> Nvcc | None:
    try:
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
        arches = subprocess.run([path, "--list-gpu-code"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(version)
    if match is None:
        return None
    return Nvcc(path, (int(match[1]), int(match[2])), tuple(arches.stdout.split()))


def nvcc() -> Nvcc:
    """The nvcc to use.

    Raises:
        ConfigurationError: there is none that works.
    """
    found = find_nvcc()
    if found is None:
        raise ConfigurationError(
            "nvcc was not found, or does not run",
            hint='put it on PATH or set CUDA_HOME; or use compiler="nvrtc", which needs no toolkit',
        )
    return found


def run_nvcc(
    tool: Nvcc,
    text: str,
    file_name: str,
    options: CompileOptions,
    *,
    pre_include: str = "",
    expressions: Sequence[str] = (),
) -> tuple[str, str]:
    """(PTX, log) of a source text under the name `file_name`; quoted includes are relative to that.

    `pre_include`: text of a header that is read before the source.

    Raises:
        CompileError: nvcc refused it; ConfigurationError: nvcc lacks the target, or hangs.
    """
    if tool.arches and options.arch not in tool.arches:
        raise ConfigurationError(
            f"{tool.name} cannot compile for {options.arch}",
            detail="it has " + ", ".join(tool.arches),
            hint="choose one of these with --arch",
        )
    name = file_name.replace("\\", "\\\\").replace('"', '\\"')
    # nvcc instantiates what host code takes the address of; after the last line, no line moves.
    uses = "".join(
        f"\nstatic const void *wmmadiag_instance_{index} = (const void *)({expression});"
        for index, expression in enumerate(expressions)
    )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.cu", Path(folder) / "kernel.ptx"
        source.write_bytes(f'#line 1 "{name}"\n{text}{uses}\n'.encode("utf-8", "surrogateescape"))
        command = [tool.path, "-ptx", f"-arch={options.arch}", f"-std={options.std}", "-lineinfo", "-x", "cu"]
        if options.debug:
            command.append("-G")
        if pre_include:
            header = Path(folder) / "wmmadiag_before.h"
            header.write_text(pre_include, "utf-8")
            command.append(f"--pre-include={header}")
        command += [*options.macro_flags(), f"-I{Path(file_name).parent}"]
        command += [f"-I{path}" for path in options.include_paths]
        command += [*options.extra, str(source), "-o", str(target)]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise ConfigurationError(
                f"{tool.name} did not finish within {_TIMEOUT:.0f} s",
                hint="leave --compiler out, so that NVRTC compiles, or include less",
            ) from None
        log = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode != 0 or not target.exists():
            _fail(log.replace(str(source), file_name), Place(file_name, len(text.splitlines())))
        return target.read_text("utf-8", "replace").rstrip("\0"), log


def _fail(log: str, end: Place) -> None:
    """Raise the error for nvcc's log: from the CUDA front end, or from the host compiler behind it."""
    errors = errors_in(log)
    error = error_from(errors, log, end, hint=error_hint(errors))
    host = _HOST_ERROR.search(log)
    if not errors and host is not None:
        error.message = host[4]
        error.place = Place(host[1], int(host[2]), int(host[3]))
        if "No such file" in host[4]:
            error.hint = "give the header's folder as an include path"
    raise error
