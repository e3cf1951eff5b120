"""The exceptions of wmmadiag. Each says what is wrong, where, and what to do next.

The exit code of the command line follows from the class (`exit_code`): 1 the kernel is wrong, 2 usage or
configuration, 3 the tool could not decide. Internal mistakes are ordinary Python exceptions, never these.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable
from typing import ClassVar

from wmmadiag.place import Place, chain_of, own_place


class WmmadiagError(Exception):
    """Base of all errors meant for the user.

    Attributes:
        message: what is wrong, one sentence, no trailing full stop needed.
        place: where in the user's source (or PTX, or card), if known.
        detail: further lines (a compiler log, where each warp stands), already formatted.
        hint: the next step for the user.
        op: full PTX opcode of the instruction that it is about, "cp.async.cg.shared.global"; "" for none.
        space: memory that it is about, "global", "shared" or "local"; "" for none, or where nobody can tell.
    """

    exit_code: ClassVar[int] = 2

    def __init__(
        self, message: str, *, place: Place | None = None, detail: str = "", hint: str = "", op: str = "",
        space: str = "",
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message = message
        self.place = place
        self.detail = detail
        self.hint = hint
        self.op = op
        self.space = space

    def __str__(self) -> str:
        parts = [self.message]
        if self.place:
            own = own_place(self.place)  # the user's line first, whatever header the instruction is in
            parts = [f"{own}: {self.message}", *filter(None, [chain_of(self.place, own)])]
        if self.detail:
            parts.append(self.detail.rstrip("\n"))
        if self.hint:
            parts.append(f"next: {self.hint}")
        return "\n".join(parts)


class ConfigurationError(WmmadiagError):
    """A wrong option, card, path, or a missing component of the installation."""


class QuestionError(ConfigurationError):
    """A source leaves something open that an option or a field of a card says.

    Attributes:
        unfit: the operation that the kernel seems to compute and is right as in no reading that was tried; "" for none.
    """

    unfit: str = ""


class SeveralKernelsError(ConfigurationError):
    """A source has several kernels, and one was asked for.

    Attributes:
        kernels: the names of those that may be meant.
        function: of the host function that launches all of them, or "".
        beside: what the source launches besides: kernels, and host functions that launch several.
    """

    kernels: tuple[str, ...] = ()
    function: str = ""
    beside: tuple[str, ...] = ()


class CompileError(WmmadiagError):
    """The compiler refused the source; `detail` holds its log."""


class PtxSyntaxError(WmmadiagError):
    """The PTX text is malformed (not merely unsupported)."""


class UndecidedError(WmmadiagError):
    """The tool cannot decide whether the kernel is right."""

    exit_code = 3


class UnsupportedError(UndecidedError):
    """Something that is deliberately not emulated: refused by name and place, never approximated."""


class BudgetError(UndecidedError):
    """The run used up its instruction or time budget; `detail` says where each warp stands."""


class KernelFault(WmmadiagError):
    """The kernel did what ends a launch: out of bounds, misaligned, trap, deadlock.

    Attributes:
        kind: stable id, e.g. "out-of-bounds", "misaligned", "deadlock" (see `emulator/faults.py`).
        block: (x, y, z) index of the block, or None.
        warp: warp index in the block, or None.
        lane: lane 0..31, or None.
        address: the offending address, or None.
        write: whether the access wrote; None where the fault is no access's.
        output: what device `printf` had written.
        fragment_line: of an access to a fragment's memory, the first of its lines (from 0) that is at fault; else None.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        place: Place | None = None,
        block: tuple[int, int, int] | None = None,
        warp: int | None = None,
        lane: int | None = None,
        address: int | None = None,
        detail: str = "",
        hint: str = "",
        op: str = "",
        space: str = "",
        write: bool | None = None,
        output: str = "",
        fragment_line: int | None = None,
    ) -> None:
        super().__init__(message, place=place, detail=detail, hint=hint, op=op, space=space)
        self.kind = kind
        self.fragment_line = fragment_line
        self.write = write
        self.output = output
        self.block = block
        self.warp = warp
        self.lane = lane
        self.address = address


_NO_ROOM = ("failed to map segment", "cannot allocate memory", "cannot map zero-fill pages")
"""What the dynamic linker says where a library finds no room (glibc, elf/dl-load.c)."""


_NO_EXCEPTION = ("error return without exception set", "without setting an exception")
"""What the interpreter says of an extension that failed and did not say why (Python/ceval.c, Objects/call.c)."""


def memory_is_limited() -> bool:
    """Whether this process's memory has a limit (`ulimit -v`, `ulimit -d`)."""
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(limit != resource.RLIM_INFINITY for limit in limits)


def lacking_of(error: BaseException) -> str:
    """What the system refused, "memory" for one, where that is all that was wrong; else ""."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "memory"
    if isinstance(error, ImportError | OSError | RuntimeError) and any(one in str(error) for one in _NO_ROOM):
        return "memory"
    if isinstance(error, SystemError) and memory_is_limited() and any(one in str(error) for one in _NO_EXCEPTION):
        return "memory"  # under a limit an extension's allocation fails first of all
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "file descriptors"
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        return "processes"
    return "threads" if isinstance(error, RuntimeError) and "can't start new thread" in str(error) else ""


def unreachable_of(error: BaseException) -> str:
    """What of a path of the user's the system refused, "NAME: Permission denied", where that was all; else ""."""
    known = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP, errno.EROFS)
    if not isinstance(error, OSError) or error.errno not in known or not isinstance(error.filename, str | bytes):
        return ""
    return f"{os.fsdecode(error.filename)}: {error.strerror}"


def uninstalled_of(error: BaseException) -> str:
    """The package that was not found, and how it is installed, where that is all that was wrong; else ""."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not name or name == "wmmadiag":
        return ""
    from importlib import metadata

    try:
        required = metadata.requires("wmmadiag") or ()
    except metadata.PackageNotFoundError:  # used from its sources
        required = ()
    for one in required:
        package, _, condition = one.partition(";")
        extra = condition.partition("extra ==")[2].strip(" '\"")
        if extra and package.replace("-", "_").startswith(name):
            return f"{name} is not installed\nnext: pip install 'wmmadiag[{extra}]'"
    return f"{name} is not installed\nnext: pip install --force-reinstall wmmadiag"


_NAMED = 3  # at most, of words that are equally near


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint such as "did you mean 'grid'?"; when nothing is near `otherwise`, or the list of what is known.

    Words that are equally near are all named: "did you mean 'gemm' or 'gemv'?".
    """
    import difflib

    words = list(dict.fromkeys(known))
    near = difflib.get_close_matches(word, words, n=_NAMED, cutoff=0.6)
    if not near:
        return otherwise or "known here: " + ", ".join(words)
    # The operands as get_close_matches has them: the ratio is not symmetric.
    ratios = [difflib.SequenceMatcher(None, one, word).ratio() for one in near]
    equal = sorted(f"'{one}'" for one, ratio in zip(near, ratios, strict=True) if ratio == ratios[0])
    return f"did you mean {', '.join(equal[:-1])}{' or ' if equal[1:] else ''}{equal[-1]}?"
