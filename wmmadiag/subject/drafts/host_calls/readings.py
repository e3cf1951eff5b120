"""What is assumed of the arrays of a kernel that a host function judges: what they are, and what they begin with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from wmmadiag.hostcode.values import Pointer
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.host_calls.candidates import Candidate
from wmmadiag.subject.drafts.host_calls.card_text import Use, Written
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.host_functions.probe import Probed

_ZEROS = "what the kernel writes begins as zeros, which is what the result fits"


@dataclass(frozen=True, slots=True)
class CallReading:
    """The use of each array, by the parameter's name."""

    uses: Mapping[str, Use]
    said: tuple[str, ...] = ()  # what it assumes, each a clause
    asked: str = ""  # what has to be so for the kernel to be right, where nobody says it; a clause


def readings(
    kernel: SourceKernel, candidate: Candidate, launched: Written, probed: Probed, named: str = ""
) -> Iterator[CallReading]:
    """How the arrays may be meant, as they are first.

    A kernel may write over what the function adds to: it is right then only where that begins as zeros, which has to be
    seen in host code, or said by the user, who names the function.
    """
    pointers = [one for one in kernel.parameters if one.pointer and not one.value]
    uses = {one.name: _use(one, candidate, launched, probed) for one in pointers}
    yield CallReading(uses)
    if any(_begins(kernel, one) == "values" and uses[one.name].direction in ("inout", "workspace") for one in pointers):
        return
    added = [one for one in pointers if candidate.arrays.get(one.name) in probed.updated]
    fresh = _zeroed(uses, {one.name for one in pointers if one not in added})
    if fresh != uses:
        yield CallReading(fresh, (_ZEROS,))
    if not added:
        return
    names = " and ".join(f"'{one.name}'" for one in added)
    over = f"{candidate.told()} adds to {names}, and the kernel writes over {'some of that' if added[1:] else 'it'}"
    every = _zeroed(uses, uses.keys())
    if named or all(_begins(kernel, one) == "zero" for one in added):
        yield CallReading(every, (f"{over}: the same where it begins as zeros, as it does here",))
    else:
        yield CallReading(every, (_ZEROS,), f"{over}: it is right if that begins as zeros, which nobody says")


def _zeroed(uses: Mapping[str, Use], names: Collection[str]) -> dict[str, Use]:
    """The uses with these arrays begun as zeros, inputs aside."""
    return {
        name: replace(one, initial="zero") if name in names and one.direction != "in" else one
        for name, one in uses.items()
    }


def _begins(kernel: SourceKernel, parameter: DraftParameter) -> str:
    """What host code has filled an array with before the launch: "zero", "values", or "" where nobody knows."""
    passed = dict(zip((one.name for one in kernel.parameters), kernel.passed, strict=True)).get(parameter.name)
    if not isinstance(passed, Pointer) or kernel.launch is None:
        return ""
    content, copied = kernel.launch.contents.get(id(passed.buffer), ("", None))
    found = copied.origin().content if copied is not None else content
    return "values" if found in ("values", "set") else found


def _use(parameter: DraftParameter, candidate: Candidate, launched: Written, probed: Probed) -> Use:
    array = candidate.arrays.get(parameter.name, "")
    shape = launched.sizes.get(parameter.name) or f"elements_of_{array}"
    if not array:
        return Use("workspace", shape)
    if not may_write(parameter, candidate) or array not in probed.written:
        return Use("in", shape)
    return Use("inout" if array in probed.updated or array in probed.partial else "out", shape)


def may_write(parameter: DraftParameter, candidate: Candidate) -> bool:
    """Whether both the kernel and the functions may write an array."""
    array = candidate.arrays.get(parameter.name)
    return array in candidate.written and not parameter.const
