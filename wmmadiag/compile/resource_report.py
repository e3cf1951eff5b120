"""What each kernel needs on the chip, and what ptxas refuses: compile to a cubin and read ptxas' own report."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from wmmadiag.compile import cache, ptx_scan
from wmmadiag.compile.build import build
from wmmadiag.compile.driver import RESOURCES, shown_names, source_key, source_tree
from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.model import Compilation, PtxasError, Resources, source_name
from wmmadiag.compile.names import demangle
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.origin import remember_resources
from wmmadiag.compile.sources import read_text
from wmmadiag.compile.toolchain import check_arch, in_wheels, toolchain
from wmmadiag.errors import CompileError, ConfigurationError
from wmmadiag.place import Place

# nvJitLink's C interface as far as it is used, by ctypes: what ptxas, which is in it, reports of PTX.


_PTX = 2
"""NVJITLINK_INPUT_PTX of nvJitLink.h."""


@functools.cache
def _library() -> ctypes.CDLL | None:
    path = in_wheels("lib/libnvJitLink.so.*[0-9]")
    with contextlib.suppress(OSError):
        library = None if path is None else ctypes.CDLL(str(path))
        return library if hasattr(library, "nvJitLinkCreate") else None
    return None


def assembler_log(ptx: str, arch: str, name: str) -> tuple[bool, str] | None:
    """Whether PTX can be assembled, and ptxas' words about it; None where no nvJitLink is installed, or it is older.

    Args:
        name: what errors call the text.
    """
    library = _library()
    if library is None:
        return None
    handle = ctypes.c_void_p()
    options = (ctypes.c_char_p * 2)(f"-arch={arch}".encode(), b"-verbose")
    if library.nvJitLinkCreate(ctypes.byref(handle), len(options), options) != 0:
        return None
    data = ptx.encode("utf-8", "surrogateescape") + b"\0"
    try:
        done = (
            library.nvJitLinkAddData(handle, _PTX, data, ctypes.c_size_t(len(data)), name.encode()) == 0
            and library.nvJitLinkComplete(handle) == 0
        )
        log = "".join(_log(library, handle, kind) for kind in ("Info", "Error"))
    finally:
        library.nvJitLinkDestroy(ctypes.byref(handle))
    return None if "Unsupported .version" in log else (done, log)


def _log(library: ctypes.CDLL, handle: ctypes.c_void_p, kind: str) -> str:
    size = ctypes.c_size_t()
    getattr(library, f"nvJitLinkGet{kind}LogSize")(handle, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    getattr(library, f"nvJitLinkGet{kind}Log")(handle, text)
    return text.value.decode("utf-8", "replace")


_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '(sm_\w+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_AMOUNTS: Mapping[str, re.Pattern[str]] = {
    "barriers": re.compile(r"used (\d+) barriers"),
    "shared": re.compile(r"(\d+)(?:\+\d+)? bytes smem"),
    "constant": re.compile(r"(\d+) bytes cmem\[\d+\]"),
    "local": re.compile(r"(\d+) bytes lmem"),
}
_ERROR = re.compile(r"ptxas (?:(?P<file>\S.*?), line (?P<line>\d+); )?\s*(?P<kind>error|fatal)\s*: (?P<text>.*)")
_TOO_MUCH = re.compile(
    r"Entry function '([^']+)' uses too much (shared|local|parameter|constant|global) data"
    r"\s*\((0x[0-9a-f]+) bytes(?: \+ [^,]*)?, (0x[0-9a-f]+) max\)"
)


def resources(subject: Compilation | Path | str, options: CompileOptions | None = None) -> tuple[Resources, ...]:
    """Registers, spills, stack, static shared and constant memory of each kernel, as ptxas reports them.

    A `Compilation` is compiled again, to a cubin, with its own options unless others are given. A PTX file needs
    nvJitLink or the toolkit's `ptxas`.

    Raises:
        PtxasError: ptxas refused the code, e.g. for more than 48 KB of static shared memory.
        CompileError, ConfigurationError: as `compile_source`.
    """
    found = _resources(subject, options)
    if isinstance(subject, Compilation) and options is None:
        remember_resources(subject, found)
    return found


def _resources(subject: Compilation | Path | str, options: CompileOptions | None) -> tuple[Resources, ...]:
    if isinstance(subject, Compilation):
        text, name, options = subject.text, subject.source, options or subject.options
    else:
        text, name, options = read_text(Path(subject)), source_name(subject), options or CompileOptions()
    if is_ptx(name):
        return _from_ptx(text, name, options)
    tools = toolchain()
    check_arch(options.arch, tools)
    tree = source_tree(text, name, options, tools)
    key = source_key(tree, options, tools, RESOURCES)
    record = None if tree.computed else cache.load(key)
    if record is not None:
        with contextlib.suppress(KeyError, AttributeError):
            return parse_report(record["log"])
    try:
        built = build(tree, options, tools, cubin=True)
    except CompileError as error:
        if "ptxas" not in error.detail:
            raise
        ptx = ptx_scan.rename_files(build(tree, options, tools).result.ptx, shown_names(tree))
        raise ptxas_error(error.detail, ptx, name) from None
    if not tree.computed:
        cache.store(key, {"log": built.result.log})
    return parse_report(built.result.log)


def parse_report(log: str) -> tuple[Resources, ...]:
    """The kernels of a `--ptxas-options=-v` log, in its order."""
    found: list[Resources] = []
    entry, arch, described = "", "", ""
    stack = (0, 0, 0)
    for line in log.splitlines():
        compiling = _ENTRY.search(line)
        if compiling:
            entry, arch, described = compiling[1], compiling[2], compiling[1]
            stack = (0, 0, 0)
            continue
        properties = _PROPERTIES.search(line)
        if properties:
            described = properties[1]
            continue
        frame = _STACK.search(line)
        if frame and described == entry:
            stack = (int(frame[1]), int(frame[2]), int(frame[3]))
            continue
        used = _USED.search(line)
        if used and entry:
            amounts = {name: sum(int(n) for n in pattern.findall(line)) for name, pattern in _AMOUNTS.items()}
            found.append(
                Resources(
                    entry=entry,
                    arch=arch,
                    registers=int(used[1]),
                    spill_stores=stack[1],
                    spill_loads=stack[2],
                    stack=stack[0],
                    **amounts,
                )
            )
            entry = ""
    return tuple(found)


def ptxas_error(log: str, ptx: str, source: str) -> PtxasError:
    """The error for a ptxas log; `ptx` is the text that its line numbers count in."""
    errors = [match for line in log.splitlines() if (match := _ERROR.search(line))]
    detail = "\n".join(match[0].strip() for match in errors) or log.strip()
    for match in errors:
        too_much = _TOO_MUCH.search(match["text"])
        if too_much:
            return _too_much(too_much, ptx, source, detail)
    places = {item.line: item for item in ptx_scan.instructions(ptx)} if any(m["line"] for m in errors) else {}
    for match in errors:
        if match["line"]:
            item = places.get(int(match["line"]))
            place = _user_place(item.place) if item is not None else None
            return PtxasError(
                f"ptxas: {match['text']}",
                kind="instruction",
                entry=item.function if item is not None else "",
                place=place or Place(source, 0),
                detail=detail,
                hint="the inline assembly or intrinsic on this line is not valid for the target",
            )
    first = errors[0]["text"] if errors else "ptxas failed"
    return PtxasError(f"ptxas: {first}", kind="other", place=Place(source, 0), detail=detail)


def _too_much(match: re.Match[str], ptx: str, source: str, detail: str) -> PtxasError:
    entry, what, used, limit = match[1], match[2], int(match[3], 16), int(match[4], 16)
    hint = (
        "declare the array `extern __shared__`, launch with its size, and opt in with"
        " cudaFuncSetAttribute(…, cudaFuncAttributeMaxDynamicSharedMemorySize, …)"
        if what == "shared"
        else ""
    )
    return PtxasError(
        f"kernel {demangle(entry)} uses {used} bytes of {'static ' if what == 'shared' else ''}{what} memory,"
        f" {limit} are allowed",
        kind=f"too-much-{what}",
        entry=entry,
        used=used,
        limit=limit,
        place=ptx_scan.first_places(ptx).get(entry) or Place(source, 0),
        detail=detail,
        hint=hint,
    )


def _user_place(place: Place | None) -> Place | None:
    """The outermost frame: the user's own line."""
    return list(place.frames())[-1] if place is not None else None


def ptxas_program() -> str:
    """Its path, or ""."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        root = os.environ.get(variable)
        if root and (Path(root) / "bin" / "ptxas").exists():
            return str(Path(root) / "bin" / "ptxas")
    return shutil.which("ptxas") or ""


def _from_ptx(text: str, name: str, options: CompileOptions) -> tuple[Resources, ...]:
    target = re.search(r"^\s*\.target\s+(sm_\d+[af]?)", text, re.MULTILINE)
    arch = target[1] if target else options.arch
    assembled = assembler_log(text, arch, name)
    if assembled is None and (program := ptxas_program()):
        assembled = _by_ptxas(program, text, arch, name)
    if assembled is None:
        raise ConfigurationError(
            "the resources of a PTX file need `ptxas` or nvJitLink, of which neither was found",
            hint="pip install nvidia-nvjitlink, or put nvcc's bin folder on PATH, or give the .cu source",
        )
    done, log = assembled
    if not done:
        raise ptxas_error(log, text, name)
    return parse_report(log)


def _by_ptxas(program: str, text: str, arch: str, name: str) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_bytes(text.encode("utf-8", "surrogateescape"))
        command = [program, "-v", f"-arch={arch}", str(source), "-o", str(Path(folder) / "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode == 0, (done.stdout + done.stderr).replace(str(source), name)
