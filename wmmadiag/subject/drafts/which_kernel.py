"""Which kernel of a source is meant, where nobody says so: the one that multiplies on tensor cores."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from wmmadiag.errors import SeveralKernelsError


def chosen_kernel(
    path: Path,
    names: Sequence[str],
    launched: Sequence[str],
    multiplying: Sequence[str],
    tells: Callable[[str], bool] | None = None,
) -> str:
    """The name of the kernel that is meant; "" if the source has none.

    Args:
        path: of the source, for messages.
        names: of its kernels.
        launched: of those that its host code launches.
        multiplying: of those that have tensor-core instructions.
        tells: whether it is plain what one without them computes: a softmax between two products is judged, too.

    Raises:
        SeveralKernelsError: several may be meant; it has those that the host code launches, or where it
            launches none those with tensor-core instructions, or all.
    """
    both = [name for name in launched if name in multiplying]
    for candidates in (names, both, multiplying if not both else (), launched if not multiplying else ()):
        if len(candidates) == 1:
            return candidates[0]
    if not names:
        return ""
    listed = "\n".join(f"  {name}{_about(name, launched, multiplying)}" for name in names)
    nearest = [*both, *multiplying, *names][0]
    error = SeveralKernelsError(
        f"{path}: the source has several kernels", detail=f"kernels:\n{listed}", hint=f"name one: --entry {nearest}"
    )
    error.kernels = tuple(name for name in launched if name in both or not both or (tells is not None and tells(name)))
    error.kernels = error.kernels if launched else tuple(multiplying or names)
    raise error


def several_instantiations(path: Path, names: Sequence[str]) -> SeveralKernelsError:
    """What to raise where host code launches several instantiations of a kernel one after the other."""
    listed = "\n".join(f"  {name}" for name in names)
    error = SeveralKernelsError(
        f"{path}: the source launches several instantiations of its kernel",
        detail=f"instantiations:\n{listed}",
        hint=f"name one: --entry {shlex.quote(names[0])}",
    )
    error.kernels = tuple(names)
    return error


def several_parts(path: Path, function: str, names: Sequence[str], beside: Sequence[str]) -> SeveralKernelsError:
    """What to raise where nobody can say what a host function computes by several kernels.

    Args:
        beside: what the source launches besides.
    """
    listed = "\n".join(f"  {name}" for name in names)
    error = SeveralKernelsError(
        f"{path}: what '{function}' computes by several kernels fits no operation",
        detail=f"kernels:\n{listed}",
        hint=f"name one, --entry {shlex.quote(names[0])}, or say what they compute together: --entry {function} "
        "--computes OP",
    )
    error.kernels, error.function, error.beside = tuple(names), function, tuple(beside)
    return error


def chosen_remark(entry: str, names: Sequence[str], multiplying: Sequence[str]) -> str:
    """Why this kernel was taken, where there are others; "" where there is no choice."""
    if len(names) < 2:
        return ""
    others = ", ".join(name for name in names if name != entry)
    reason = "the only one with tensor-core instructions" if multiplying == [entry] else "the one that is launched"
    if entry in multiplying and len(multiplying) > 1:
        reason = "the one with tensor-core instructions that is launched"
    return f"the kernel '{entry}' was taken, {reason}; --entry takes another: {others}"


def _about(name: str, launched: Sequence[str], multiplying: Sequence[str]) -> str:
    words = ["tensor cores"] * (name in multiplying) + ["launched"] * (name in launched)
    return f"  ({', '.join(words)})" if words else ""
