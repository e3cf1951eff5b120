"""The parameters of a kernel as its PTX declares them; nothing else of the module needs to be understood."""

from __future__ import annotations

import re

from wmmadiag.errors import ConfigurationError
from wmmadiag.ptx.ir import PtxParameter
from wmmadiag.ptx.types import WIDTHS

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$%.]+)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?:\.ptr\s*(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?"
    r"(?P<name>[\w$%]+)\s*(?:\[\s*(?P<count>\d*)\s*\])?"
)


def entries(ptx: str) -> dict[str, tuple[PtxParameter, ...]]:
    """Name of each kernel → its parameters, with offsets in the parameter block."""
    text = _COMMENT.sub(" ", ptx)
    return {match[1]: _parameters(match[2] or "") for match in _ENTRY.finditer(text)}


def is_cooperative(ptx: str, entry: str) -> bool:
    """Whether a kernel asks for the workspace that only a cooperative launch has: it waits for its whole grid."""
    text = _COMMENT.sub(" ", ptx)
    parts = re.split(r"\.entry\s+([\w$%.]+)", text)
    bodies = dict(zip(parts[1::2], parts[2::2], strict=True))
    return re.search(r"%envreg[12]\b", bodies.get(entry, "")) is not None


def entry_parameters(ptx: str, entry: str) -> tuple[PtxParameter, ...]:
    """The parameters of one kernel.

    Raises:
        ConfigurationError: there is no such kernel.
    """
    found = entries(ptx)
    if entry not in found:
        raise ConfigurationError(f"the PTX has no kernel '{entry}'", hint=f"it has: {', '.join(found) or 'none'}")
    return found[entry]


def _parameters(text: str) -> tuple[PtxParameter, ...]:
    parameters: list[PtxParameter] = []
    offset = 0
    for match in _PARAMETER.finditer(text):
        size = WIDTHS[match["type"]] // 8
        align = int(match["align"] or size)
        count = int(match["count"] or 0) if match["count"] is not None else 1
        offset = -(-offset // align) * align
        parameters.append(PtxParameter(match["name"], match["type"], size * count, align, offset))
        offset += size * count
    return tuple(parameters)
