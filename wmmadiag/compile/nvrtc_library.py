"""NVRTC's C interface as far as it is used, by ctypes: the bindings for Python load the driver's, too, for 0.1 s."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from wmmadiag.errors import ConfigurationError

INVALID_OPTION = 5
"""NVRTC_ERROR_INVALID_OPTION of nvrtc.h."""


class NvrtcLibrary:
    """The loaded library: a method for each function that is used; a program is its handle."""

    def __init__(self, path: str) -> None:
        """Load it.

        Raises:
            OSError: it cannot be loaded.
        """
        self.path = path
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> tuple[int, int]:
        """(major, minor)."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._done("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def arches(self) -> tuple[int, ...]:
        """The targets that it compiles for: 75, 80, …."""
        count = ctypes.c_int()
        self._done("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._done("nvrtcGetSupportedArchs", found)
        return tuple(sorted(found))

    def make_room(self, size: int) -> None:
        """Let precompiled headers take so many bytes, where it knows such headers (from 12.8 on)."""
        set_size = getattr(self._library, "nvrtcSetPCHHeapSize", None)
        if set_size is not None:
            set_size(ctypes.c_size_t(size))

    def create(self, text: bytes, name: bytes, headers: Sequence[tuple[bytes, bytes]]) -> ctypes.c_void_p:
        """A program.

        Args:
            headers: (name in the directive, text).
        """
        program = ctypes.c_void_p()
        array = ctypes.c_char_p * max(len(headers), 1)
        texts, names = array(*(held for _, held in headers)), array(*(header for header, _ in headers))
        self._done("nvrtcCreateProgram", ctypes.byref(program), text, name, len(headers), texts, names)
        return program

    def add_name(self, program: ctypes.c_void_p, expression: bytes) -> None:
        """Have an instantiation compiled."""
        self._done("nvrtcAddNameExpression", program, expression)

    def compile(self, program: ctypes.c_void_p, options: Sequence[bytes]) -> int:
        """Compile; Python runs on meanwhile. The status, 0 for success."""
        return int(
            self._library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * max(len(options), 1))(*options))
        )

    def lowered(self, program: ctypes.c_void_p, expression: bytes) -> str | None:
        """The mangled name of an instantiation; None where it has none."""
        name = ctypes.c_char_p()
        status = self._library.nvrtcGetLoweredName(program, expression, ctypes.byref(name))
        return name.value.decode() if status == 0 and name.value is not None else None

    def log(self, program: ctypes.c_void_p) -> str:
        """What was said of it."""
        return self._text("nvrtcGetProgramLog", program)

    def ptx(self, program: ctypes.c_void_p) -> str:
        """What was made of it."""
        return self._text("nvrtcGetPTX", program)

    def destroy(self, program: ctypes.c_void_p) -> None:
        """Give its memory back."""
        self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def name(self, status: int) -> str:
        """ "NVRTC_ERROR_COMPILATION" """
        said: bytes = self._library.nvrtcGetErrorString(status)
        return said.decode()

    def _text(self, function: str, program: ctypes.c_void_p) -> str:
        return self._bytes(function, program).rstrip(b"\0").decode("utf-8", "replace")

    def _bytes(self, function: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._done(f"{function}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        self._done(function, program, buffer)
        return buffer.raw[: size.value]

    def _done(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status != 0:
            raise ConfigurationError(
                f"NVRTC: {function} failed: {self.name(status)}", hint="`wmmadiag doctor` says which NVRTC was found"
            )
