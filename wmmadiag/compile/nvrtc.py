"""One call of NVRTC: text and headers in, PTX or cubin and the log out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial

from wmmadiag.compile.nvrtc_library import INVALID_OPTION
from wmmadiag.compile.toolchain import nvrtc_library
from wmmadiag.errors import ConfigurationError, UndecidedError, memory_is_limited
from wmmadiag.processes.apart import Copy, apart
from wmmadiag.processes.child import ChildEnded
from wmmadiag.processes.waiting import waited_for


@dataclass(frozen=True, slots=True)
class NvrtcResult:
    """What NVRTC answered."""

    ok: bool  # whether the program compiled
    log: str  # its log, "" when it said nothing
    ptx: str = ""  # what it made, a cubin apart
    lowered: Mapping[str, str] = field(default_factory=dict)  # name expression → mangled name
    status: str = ""  # NVRTC's result name, e.g. "NVRTC_ERROR_COMPILATION".


ENDED = "NVRTC ended its process"
"""Begins the status of what it died of."""
_LAST: ContextVar[tuple[object, NvrtcResult] | None] = ContextVar("_LAST", default=None)
_ONCE: ContextVar[bool] = ContextVar("_ONCE", default=False)


@contextmanager
def asked_once() -> Iterator[None]:
    """Within this what was asked of NVRTC last is not asked again, if it compiled: files on the disk do not change."""
    before, last = _ONCE.set(True), _LAST.set(None)
    try:
        yield
    finally:
        _ONCE.reset(before)
        _LAST.reset(last)


def run_nvrtc(
    text: str | bytes,
    file_name: str,
    options: Sequence[str],
    *,
    headers: Mapping[str, bytes] | None = None,
    name_expressions: Sequence[str] = (),
    again_and_again: bool = False,
) -> NvrtcResult:
    """Compile `text` under the name `file_name`, with `headers` (name in the directive → text) held in memory.

    Args:
        again_and_again: whether it is one of many texts that somebody made: what NVRTC dies of is then an answer.

    Raises:
        ConfigurationError: NVRTC is missing, or refuses an option.
        UndecidedError: it ended its process, as it does where that has too little memory.
    """
    asked = (text, file_name, tuple(options), dict(headers or {}), tuple(name_expressions))
    last = _LAST.get()
    if last is not None and last[0] == asked:
        return last[1]
    nvrtc_library()  # loaded here, so that no child has to
    work, compiling = partial(_compiled, *asked), f"compiling {file_name} with NVRTC"
    if again_and_again:
        work = partial(_COPY.ask, asked)
    elif memory_is_limited():
        work = partial(apart, work)
    try:
        result = waited_for(work, compiling)
    except ChildEnded as end:
        if again_and_again:
            return NvrtcResult(False, "", status=f"{ENDED} with {end.words()}")
        raise UndecidedError(
            f"NVRTC ended with {end.words()} while it compiled {file_name}: this process's memory is limited",
            hint="raise the limit (ulimit -v), or compile less at once",
        ) from None
    except BaseException:  # an interrupt: nobody waits for this answer any more
        if again_and_again:
            _COPY.stop()
        raise
    if _ONCE.get() and result.ok:
        _LAST.set((asked, result))
    return result


def _compiled(
    text: str | bytes,
    file_name: str,
    options: Sequence[str],
    headers: Mapping[str, bytes],
    name_expressions: Sequence[str],
) -> NvrtcResult:
    nvrtc = nvrtc_library()
    program = nvrtc.create(
        _encode(text), _encode(file_name), [(_encode(name), content) for name, content in headers.items()]
    )
    try:
        for expression in name_expressions:
            nvrtc.add_name(program, _encode(expression))
        status = nvrtc.compile(program, [_encode(option) for option in options])
        log = nvrtc.log(program)
        if status == INVALID_OPTION:
            raise ConfigurationError(
                "NVRTC does not know an option",
                detail=log.strip() or " ".join(options),
                hint="`wmmadiag doctor` says which NVRTC was found; 13 knows all options that are used",
            )
        if status != 0:
            return NvrtcResult(False, log, status=nvrtc.name(status))
        names = {expression: nvrtc.lowered(program, _encode(expression)) for expression in name_expressions}
        lowered = {expression: name for expression, name in names.items() if name is not None}
        return NvrtcResult(True, log, nvrtc.ptx(program), lowered, nvrtc.name(status))
    finally:
        nvrtc.destroy(program)


_COPY = Copy(lambda asked: _compiled(*asked))


def _encode(text: str | bytes) -> bytes:
    # The source may hold bytes that are not UTF-8 (comments in Latin-1); they were read as surrogates.
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
