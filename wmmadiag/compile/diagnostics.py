"""The log of NVRTC as data, and as the error that the user sees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wmmadiag.errors import CompileError
from wmmadiag.place import Place

_HEAD = re.compile(
    r"^(?P<file>[^\n]+?)\((?P<line>\d+)\): "
    r"(?P<kind>catastrophic error|internal error|error|warning|remark)(?: #(?P<number>[\w-]+))?: (?P<text>.*)$"
)
# Why each overload of a library function does not fit: pages of them, none in the user's code.
_CANDIDATE = re.compile(r"^[^\n]*/include/[^\n]*\(\d+\): note(?: #[\w-]+)?: ")
# NVRTC reads name expressions as a file of its own; what is wrong there follows from what is wrong in the source.
_OWN_FILE = "__nv_name_map"
_NO_FRAGMENT = 'incomplete type "nvcuda::wmma::fragment<'
# CUDA C++ Programming Guide 13, "Element Types and Matrix Sizes".
_FRAGMENTS = (
    "WMMA has no such fragment here: m16n16k16, m32n8k16 and m8n32k16 take half, signed and unsigned char, and from "
    "sm_80 on __nv_bfloat16; from sm_80 on there are m16n16k8 for precision::tf32 and m8n8k4 for double"
)
_AT_END = re.compile(r"^At end of source: error: (.*)$", re.MULTILINE)
_LAUNCHED_BY_KERNELS = re.compile(r"device-side kernel launch|kernel launch from __device__ or __global__ functions")
_ITSELF = re.compile(r"#include file .* includes itself")
_COUNT = re.compile(r"^\d+ (?:catastrophic )?errors? detected in the compilation of|^Compilation terminated\.")
# Each line of what is instantiated around a message ends so; without a file: where the one before it is.
_SEEN_FROM = re.compile(r" at line (?P<line>\d+)(?: of \"?(?P<file>[^\"]+)\"?)?$")
_REMARK = re.compile(r'^Remark: The warnings can be suppressed with "-diag-suppress')


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message: `kind` is "error" or "warning"; `lines` is all of it, with the excerpt and the caret."""

    kind: str
    place: Place
    message: str
    lines: tuple[str, ...]

    def places(self) -> Iterator[Place]:
        """Where it is, then where what it is in was used: each template that was asked for, the innermost first."""
        yield self.place
        file = self.place.file
        for line in self.lines:
            asked = _SEEN_FROM.search(line)
            if asked is not None:
                file = asked["file"] or file
                yield Place(file, int(asked["line"]))


def parse_log(log: str) -> tuple[Diagnostic, ...]:
    """The messages of a compiler log, in order, with column from the caret's position."""
    blocks: list[tuple[re.Match[str], list[str]]] = []
    skipping = False
    for line in log.replace("\0", "").splitlines():
        match = _HEAD.match(line)
        if match:
            blocks.append((match, [line]))
            skipping = False
        elif _CANDIDATE.match(line):
            skipping = True
        elif (skipping and (not line or line[0].isspace())) or _COUNT.match(line) or _REMARK.match(line):
            continue
        elif blocks:
            skipping = False
            blocks[-1][1].append(line)
    found = []
    for match, lines in blocks:
        while lines and not lines[-1].strip():
            lines.pop()
        caret = next((line.index("^") for line in lines[1:] if line.strip() == "^"), None)
        column = caret - 1 if caret is not None and caret >= 2 else 0
        kind = "error" if "error" in match["kind"] else "warning"
        place = Place(match["file"], int(match["line"]), column)
        found.append(Diagnostic(kind, place, match["text"], tuple(lines)))
    return tuple(found)


_NOT_LOADED = "nvrtc: error: failed to open libnvrtc-builtins"


def warnings_text(log: str) -> str:
    """The log with the compiler's boilerplate removed; "" when nothing is left."""
    lines = [line for line in log.replace("\0", "").splitlines() if not (_COUNT.match(line) or _REMARK.match(line))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def error_from(errors: Sequence[Diagnostic], log: str, end: Place, *, hint: str = "") -> CompileError:
    """The error for a failed compilation; its place is that of the first of `errors`.

    `end`: the last line of the source, which an error at its end is about.
    """
    if _NOT_LOADED in log:
        return CompileError(
            "NVRTC cannot load a library of its own",
            detail=log.strip(),
            hint="install nvidia-cuda-nvrtc again; or it lacked memory: raise the limit (ulimit -v)",
        )
    if not errors:
        ended = _AT_END.search(log)
        message, place = (f"{ended[1]} where it ends", end) if ended else ("the compiler failed", Place(end.file, 0))
        return CompileError(message, place=place, detail=log.strip(), hint=hint)
    errors = sorted(errors, key=lambda error: error.place.file == _OWN_FILE)
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    shown = [line for error in errors[:20] for line in (*error.lines, "")]
    if len(errors) > 20:
        shown.append(f"… and {len(errors) - 20} more errors")
    return CompileError(first.message + more, place=first.place, detail="\n".join(shown), hint=hint)


def error_hint(errors: Sequence[Diagnostic]) -> str:
    """The next step that errors themselves tell."""
    if any(error.message.startswith(_NO_FRAGMENT) for error in errors):
        return _FRAGMENTS
    if any(error.message == "out of memory" for error in errors):
        return "raise the limit on this process's memory (ulimit -v)"
    if any(_LAUNCHED_BY_KERNELS.search(error.message) for error in errors):
        return "kernels that launch kernels are not emulated: launch them from host code"
    if any(_ITSELF.match(error.message) for error in errors):
        return "begin the header with `#pragma once`"
    return "mend it, or give what it is compiled with elsewhere: -D NAME=TEXT, -I FOLDER, --std"


def errors_in(log: str) -> tuple[Diagnostic, ...]:
    """The errors of a log, warnings apart."""
    return tuple(diagnostic for diagnostic in parse_log(log) if diagnostic.kind == "error")
