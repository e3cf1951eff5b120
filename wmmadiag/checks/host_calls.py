"""What the host code beside a kernel says of its launches: where they are, and bytes of shared memory that it asks for.

Read from the tree; what an expression is worth is the compiler's to say, where nothing changes what it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from wmmadiag.compile.ask.answers import Constant
from wmmadiag.compile.ask.asking import ask
from wmmadiag.compile.ask.questions import AskedSource, ValueOf
from wmmadiag.compile.ask.scope import scope_at
from wmmadiag.csource.nodes import Node, arguments, called, descendants
from wmmadiag.csource.tree import Source, parse
from wmmadiag.errors import CompileError, ConfigurationError

# CUDA Runtime API, "Execution Control"; HIP's is called as such.
_SET_ATTRIBUTE = frozenset({"cudaFuncSetAttribute", "hipFuncSetAttribute"})
_DYNAMIC_SHARED = "MaxDynamicSharedMemorySize"
_SHARED = 2
"""Position of the dynamic shared memory in `<<<grid, block, shared, stream>>>`."""


@dataclass(frozen=True)
class HostCalls:
    """The calls of one file that are about a kernel."""

    asked: AskedSource  # the file, as it was compiled
    kernel: str  # name, without scope and template arguments

    @cached_property
    def source(self) -> Source:
        """The file's tree."""
        return parse(self.asked.text, self.asked.file)

    @cached_property
    def launches(self) -> Sequence[Node]:
        """Its launches with <<< >>>."""
        calls = descendants(self.source.root, "call_expression")
        return [one for one in calls if called(one) == self.kernel and _configuration(one) is not None]

    @property
    def lines(self) -> list[int]:
        """1-based lines of the launches."""
        return [self.source.place(one).line for one in self.launches]

    def opt_ins(self) -> list[tuple[int, int]]:
        """(1-based line, bytes) of what opts the kernel in to an amount that the source tells."""
        found = [(one, arguments(one)[2]) for one in self._attributes()]
        values = self._values([amount for _, amount in found])
        return [(self.source.place(one).line, values[amount]) for one, amount in found if amount in values]

    def launched_bytes(self) -> list[int]:
        """Dynamic shared memory of those launches whose amount the source tells."""
        given = [one.named_children for one in map(_configuration, self.launches) if one is not None]
        return list(self._values([one[_SHARED] for one in given if len(one) > _SHARED]).values())

    def _attributes(self) -> Iterator[Node]:
        for one in descendants(self.source.root, "call_expression"):
            given = arguments(one) if called(one) in _SET_ATTRIBUTE else []
            if len(given) != 3 or _DYNAMIC_SHARED not in self.source.text(given[1]):
                continue
            if self.kernel in {self.source.text(name) for name in descendants(given[0], "identifier")}:
                yield one

    def _values(self, nodes: Sequence[Node]) -> dict[Node, int]:
        questions = [self._question(one) for one in nodes]
        try:
            answers = ask(self.asked, questions)
        except (CompileError, ConfigurationError):  # what the compiler cannot be asked, the source does not tell
            return {}
        answered = {one: answers[question] for one, question in zip(nodes, questions, strict=True)}
        return {one: int(value.value) for one, value in answered.items() if isinstance(value, Constant)}

    def _question(self, node: Node) -> ValueOf:
        text = self.source.words(node)
        return ValueOf(text, scope_at(self.source, node, text, unchanged=True))


def _configuration(call: Node) -> Node | None:
    return next((one for one in call.named_children if one.type == "kernel_call_syntax"), None)
