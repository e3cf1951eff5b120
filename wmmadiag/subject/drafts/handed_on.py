"""What kernels that host code launches later do with an array that one writes: it tells what the array holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.values import Pointer
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.model import Taken
from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.code_facts import without_comments
from wmmadiag.subject.drafts.kernel import SourceKernel

_CASTS = r"(?:\(\s*[\w:]+\s*\)\s*|[\w:<>]*\s*\(\s*)*"
_INDEX = r"\s*\[(?:[^\[\]]|\[[^\[\]]*\])*\][\s)]*"


def taken_otherwise(card: Card) -> bool:
    """Whether a later kernel multiplies by what a card says is to be divided by, or the other way round.

    Where none is found, or it is not seen what one does, nothing is contradicted.
    """
    if card.derived is None:
        return False
    operation = OPERATIONS[card.computes.operation]
    said = {name: str(card.computes.parameters.get(name, one.default)) for name, one in operation.parameters.items()}
    for choice in operation.choices:
        for one in choice.alternatives:
            if one.taken is None or any(said[name] != str(value) for name, value in one.parameters.items()):
                continue
            role, meant = one.taken
            names = [own.name for own in card.arguments if any(view.role == role for view in own.views)]
            if any(found not in (None, meant) for name in names for found in _uses(card.derived.kernel, name)):
                return True
    return False


def _uses(kernel: SourceKernel, name: str) -> Iterator[Taken | None]:
    """How each kernel takes the array that is handed to it after a kernel wrote it by its parameter `name`."""
    from wmmadiag.compile.kernel_code import kernel_code

    launch, host = kernel.launch, kernel.host
    index = next((at for at, one in enumerate(kernel.parameters) if one.name == name), None)
    passed = kernel.passed[index] if index is not None else None
    if launch is None or host is None or not isinstance(passed, Pointer):
        return
    run = next((one for one in host.runs if any(own is launch for own in one.launches)), None)
    own_place = next((at for at, own in enumerate(run.launches) if own is launch), 0) if run is not None else 0
    for later in run.launches[own_place + 1 :] if run is not None else ():
        declared = host.program.kernels(plain_name(later.kernel.name))
        if not declared:
            continue
        for parameter, value in zip(declared[0].function.parameters, later.arguments, strict=False):
            if isinstance(value, Pointer) and value.buffer is passed.buffer:
                yield taken(kernel_code(host.whole, plain_name(later.kernel.name)), parameter.name)


def taken(code: str, name: str) -> Taken | None:
    """Whether code multiplies by elements of an array or divides by them; None where it does neither, or both.

    An element that is given a name first is followed there.
    """
    text = without_comments(code)
    array = rf"\b{re.escape(name)}{_INDEX}"
    named = re.findall(rf"\b(\w+)\s*=\s*{_CASTS}{array};", text)
    found: set[Taken] = set()
    for one in (array, *(rf"\b{re.escape(each)}\b[\s)]*" for each in dict.fromkeys(named))):
        if re.search(rf"(?<!/)/=?\s*{_CASTS}{one}", text):
            found.add("divided")
        if re.search(rf"\*=?\s*{_CASTS}{one}|{one}\*(?!=)", text):
            found.add("multiplied")
    return found.pop() if len(found) == 1 else None
