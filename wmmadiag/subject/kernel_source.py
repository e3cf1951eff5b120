"""What a source says about one of its kernels: parameters, and the launches in its host code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.guess import Parameter

if TYPE_CHECKING:
    from wmmadiag.compile import HostLaunch


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One kernel of a source.

    Attributes:
        entry: name, with the template arguments that the source's own launch gives where the user gave none.
        parameters: in order.
        launches: of this kernel, in the source's order.
    """

    entry: str
    parameters: tuple[Parameter, ...]
    launches: tuple[HostLaunch, ...]


def read_kernel(source_path: Path, entry: str = "") -> KernelFacts:
    """Read a kernel's signature and launches from its source.

    Args:
        entry: name or name expression; may be empty if the source has one kernel.

    Raises:
        ConfigurationError: the source cannot be read, or has no such kernel, or several and no name is given.
    """
    from wmmadiag.compile import find_launches, kernel_signatures, signature

    try:
        text = source_path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"cannot read the source {source_path}: {error.strerror or error}") from None
    if not entry:
        names = list(dict.fromkeys(found.name for found in kernel_signatures(text, str(source_path))))
        if len(names) != 1:
            raise ConfigurationError(
                f"{source_path} has {len(names) or 'no'} kernel{'s' * (len(names) != 1)}",
                detail="\n".join(f"  {name}" for name in names),
                hint="choose one with --entry NAME" if names else "the source defines no __global__ function",
            )
        entry = names[0]
    base = entry.split("<")[0].split("::")[-1].strip()
    launches = tuple(
        launch for launch in find_launches(text, str(source_path)) if launch.kernel.split("::")[-1] == base
    )
    if "<" not in entry and launches and launches[0].template_arguments:
        arguments = ", ".join(argument.text for argument in launches[0].template_arguments)
        resolved = f"{entry}<{arguments}>"
    else:
        resolved = entry
    declared = signature(text, resolved, file=str(source_path))
    parameters = tuple(
        Parameter(
            name=item.name or f"argument{index}",
            c_type=_plain_type(item.type, item.name),
            pointer=item.pointer,
            const=item.const,
            dtype=item.dtype,
            lanes=item.lanes,
        )
        for index, item in enumerate(declared.parameters)
    )
    return KernelFacts(entry, parameters, launches)


def _plain_type(text: str, name: str) -> str:
    """The C type without const, restrict and the star."""
    dropped = {"const", "*", "__restrict__", "__restrict", "restrict", "volatile", name}
    return " ".join(word for word in text.replace("*", " * ").split() if word not in dropped)
