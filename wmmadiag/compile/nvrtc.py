"""One call of NVRTC: text and headers in, PTX or cubin and the log out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from wmmadiag.compile.toolchain import nvrtc_module
from wmmadiag.errors import ConfigurationError, UndecidedError
from wmmadiag.processes.apart import apart, memory_is_limited
from wmmadiag.processes.child import ChildEnded
from wmmadiag.waiting import waited_for


@dataclass(frozen=True, slots=True)
class NvrtcResult:
    """What NVRTC answered.

    Attributes:
        ok: whether the program compiled.
        log: its log, "" when it said nothing.
        ptx, cubin: what it made, by what the options asked for.
        lowered: name expression → mangled name.
        status: NVRTC's result name, e.g. "NVRTC_ERROR_COMPILATION".
    """

    ok: bool
    log: str
    ptx: str = ""
    cubin: bytes = b""
    lowered: Mapping[str, str] = field(default_factory=dict)
    status: str = ""


def run_nvrtc(
    text: str | bytes,
    file_name: str,
    options: Sequence[str],
    *,
    headers: Mapping[str, bytes] | None = None,
    name_expressions: Sequence[str] = (),
    cubin: bool = False,
) -> NvrtcResult:
    """Compile `text` under the name `file_name`, with `headers` (name in the directive → text) held in memory.

    Raises:
        ConfigurationError: NVRTC is missing, or refuses an option.
        UndecidedError: it ended its process, as it does where that has too little memory.
    """
    nvrtc_module()  # loaded here, so that no child has to
    work = partial(_compiled, text, file_name, options, headers or {}, name_expressions, cubin)
    compiling = f"compiling {file_name} with NVRTC"
    if not memory_is_limited():
        return waited_for(work, compiling)
    try:
        return waited_for(partial(apart, work), compiling)
    except ChildEnded as end:
        raise UndecidedError(
            f"NVRTC ended with {end.words()} while it compiled {file_name}: this process's memory is limited",
            hint="raise the limit (ulimit -v), or compile less at once",
        ) from None


def _compiled(
    text: str | bytes,
    file_name: str,
    options: Sequence[str],
    headers: Mapping[str, bytes],
    name_expressions: Sequence[str],
    cubin: bool,
) -> NvrtcResult:
    nvrtc = nvrtc_module()
    created, program = nvrtc.nvrtcCreateProgram(
        _encode(text),
        _encode(file_name),
        len(headers),
        [_encode(content) for content in headers.values()],
        [_encode(name) for name in headers],
    )
    if int(created) != 0:
        raise ConfigurationError(f"NVRTC refused to start: {created.name}")
    try:
        for expression in name_expressions:
            nvrtc.nvrtcAddNameExpression(program, _encode(expression))
        flags = [_encode(option) for option in options]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = _text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
        if int(result) != 0:
            if result.name == "NVRTC_ERROR_INVALID_OPTION":
                raise ConfigurationError("NVRTC does not know an option", detail=log.strip() or " ".join(options))
            return NvrtcResult(False, log, status=result.name)
        lowered = {}
        for expression in name_expressions:
            status, name = nvrtc.nvrtcGetLoweredName(program, _encode(expression))
            if int(status) == 0:
                lowered[expression] = name.decode()
        if cubin:
            _, size = nvrtc.nvrtcGetCUBINSize(program)
            data = bytes(bytearray(size))
            nvrtc.nvrtcGetCUBIN(program, data)
            return NvrtcResult(True, log, cubin=data, lowered=lowered, status=result.name)
        ptx = _text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        return NvrtcResult(True, log, ptx=ptx, lowered=lowered, status=result.name)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _encode(text: str | bytes) -> bytes:
    # The source may hold bytes that are not UTF-8 (comments in Latin-1); they were read as surrogates.
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def _text(program: object, size_of: object, read: object) -> str:
    _, size = size_of(program)  # type: ignore[operator]
    # The bindings write through the pointer of a bytes object that must not be shared with another one.
    buffer = bytes(bytearray(size))
    read(program, buffer)  # type: ignore[operator]
    return buffer.rstrip(b"\0").decode("utf-8", "replace")
