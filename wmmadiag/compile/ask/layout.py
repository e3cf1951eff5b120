"""How a class lies in memory: each member's offset and type as the compiler has them, down to numbers and pointers.

The names of members come from the source's tree, all else from the compiler. Bytes that the members do not explain are
no padding: such a class is refused, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wmmadiag.compile.ask.answers import KernelParameters, MemberFacts, TypeFacts, Unanswered
from wmmadiag.compile.ask.asking import AskingSession
from wmmadiag.compile.ask.coverage import unexplained
from wmmadiag.compile.ask.elements import element
from wmmadiag.compile.ask.questions import AskedSource, Member, MemberStep, Parameters, ParameterType, Question, TypeOf
from wmmadiag.compile.ask.records import DeclaredClass, DeclaredMember, Records
from wmmadiag.compile.host_headers import STUBS

_DEEPEST = 12
_MOST_ROUNDS = 16
_MOST_LEAVES = 4096
_AXES = "xyzw"


@dataclass(frozen=True, slots=True)
class Field:
    """A data member or a base class."""

    name: str  # "" of a base class
    offset: int  # bytes from the beginning of the class that it is a member of
    facts: TypeFacts  # its type
    # of its type, of an array that of one element, where that is a class with members of its own
    layout: ClassLayout | None = None


@dataclass(frozen=True, slots=True)
class Leaf:
    """A number or a pointer in a class."""

    path: str  # "strides.q", "dims[1]", "v.x"; members of base classes without their base's name
    # offset, size: bytes from the outermost class
    offset: int
    size: int
    dtype: str | None  # its number format, None of a pointer and of what has none
    facts: TypeFacts  # of the member that it is, or is an element of
    alternative: bool = False  # whether an earlier member of a union has (some of) the same bytes


@dataclass(frozen=True, slots=True)
class ClassLayout:
    """A class."""

    type: str  # canonical name
    # size, align: bytes
    size: int
    align: int
    fields: tuple[Field, ...]  # base classes and members, in the order of their declaration

    def leaves(self) -> tuple[Leaf, ...]:
        """Its numbers and pointers, by offset; of members that share bytes the first first.

        Raises:
            ValueError: there are more than 4096.
        """
        found: list[Leaf] = []
        taken = 0
        for one in _leaves(self, "", 0):
            mask = ((1 << one.size) - 1) << one.offset
            found.append(replace(one, alternative=taken & mask != 0))
            taken |= mask
            if len(found) > _MOST_LEAVES:
                raise ValueError(f"'{self.type}' has more than {_MOST_LEAVES} members")
        return tuple(sorted(found, key=lambda one: one.offset))


def _leaves(layout: ClassLayout, path: str, offset: int) -> Iterator[Leaf]:
    for one in layout.fields:
        dot = "." if path and one.name else ""
        name, at = path + dot + one.name, offset + one.offset
        if one.facts.empty and not one.facts.depth:
            continue
        size = one.facts.size
        for extent in one.facts.extents:
            size //= extent or 1
        for index, label in enumerate(_indices(one.facts.extents)):
            place = at + index * size
            if one.layout is not None:
                yield from _leaves(one.layout, name + label, place)
            else:
                yield from _scalar(one, name + label, place, size)


def _scalar(one: Field, path: str, offset: int, size: int) -> Iterator[Leaf]:
    known = None if one.facts.depth else element(one.facts)
    if known is None or known[1] == 1:
        dtype = None if known is None else known[0]
        yield Leaf(path, offset, size, dtype, one.facts)
        return
    each = size // known[1]
    for axis in range(known[1]):
        yield Leaf(f"{path}.{_AXES[axis]}", offset + axis * each, each, known[0], one.facts)


def _indices(extents: Sequence[int]) -> list[str]:
    labels = [""]
    for extent in extents:
        labels = [f"{label}[{index}]" for label in labels for index in range(extent)]
        if len(labels) > _MOST_LEAVES:
            raise ValueError(f"an array has more than {_MOST_LEAVES} elements")
    return labels


def layouts(
    asked: AskedSource, roots: Sequence[TypeOf | ParameterType], expected: Mapping[Any, str] | None = None
) -> dict[TypeOf | ParameterType, ClassLayout | Unanswered]:
    """The layouts of classes; where there is none, the reason.

    Args:
        roots: types, or parameters of kernels.
        expected: root → its type as the source writes it, which spares a compilation where it is a class of the source.

    Raises: as `ask`.
    """
    session = AskingSession(asked)
    reader = _LayoutReader(Records(session.files.tree, (STUBS, *session.files.tools.includes)))
    found: dict[TypeOf | ParameterType, ClassLayout | Unanswered] = {}
    for _ in range(_MOST_ROUNDS):
        found = {}
        for root in dict.fromkeys(roots):
            try:
                made = reader.of_root(root, (expected or {}).get(root, ""))
            except _Refused as refused:
                found[root] = Unanswered(str(refused))
            else:
                found |= {root: made} if made is not None else {}
        if not reader.wanted:
            break
        reader.answers |= session.ask(reader.wanted)
        reader.wanted.clear()
        reader.leads.clear()
    return {root: found.get(root, Unanswered("its classes are nested too deeply")) for root in roots}


class _Refused(Exception):
    """Why there is no layout."""


class _Misread(_Refused):
    """Why a declaration cannot be that of the class."""


@dataclass(slots=True)
class _LayoutReader:
    records: Records
    answers: dict[Question, Any] = field(default_factory=dict)
    wanted: list[Question] = field(default_factory=list)
    made: dict[str, ClassLayout | _Refused] = field(default_factory=dict)
    leads: dict[str, tuple[TypeOf | ParameterType, tuple[MemberStep, ...]]] = field(default_factory=dict)
    classes: dict[str, tuple[list[list[DeclaredClass]], Iterator[list[DeclaredClass]]]] = field(default_factory=dict)

    def answer(self, question: Question) -> Any:
        """The compiler's answer; None until the next compilation."""
        if question not in self.answers:
            self.wanted.append(question)
        return self.answers.get(question)

    def of_root(self, root: TypeOf | ParameterType, expected: str) -> ClassLayout | None:
        if isinstance(root, ParameterType):
            answer = self.answer(Parameters(root.kernel, root.types))
            if isinstance(answer, KernelParameters):
                if root.index >= len(answer.types):
                    raise _Refused(f"the kernel has no parameter {root.index}")
                answer = answer.types[root.index]
        else:
            answer = self.answer(root)
        if isinstance(answer, Unanswered):
            raise _Refused(answer.reason)
        if answer is None:
            likely = self.records.near(expected)
            if likely is not None:
                self.ask_ahead(root, (), likely, _DEEPEST)
            return None
        return self.layout(root, (), answer, None)

    def layout(
        self, root: TypeOf | ParameterType, path: tuple[MemberStep, ...], facts: TypeFacts, inline: DeclaredClass | None
    ) -> ClassLayout | None:
        """The layout of the class at the end of a path."""
        called = facts.target
        if facts.depth or facts.target_kind not in ("class", "union") or element(facts) is not None:
            raise _Refused(f"'{facts.type}' is no class of several members")
        if not facts.complete:
            raise _Refused(f"'{called}' is not defined")
        if facts.polymorphic:
            raise _Refused(f"'{called}' has virtual functions or virtual base classes")
        if facts.empty:
            return ClassLayout(called, facts.target_size, facts.target_align, ())
        if len(path) > _DEEPEST:
            raise _Refused(f"'{called}' is nested too deeply")
        if "<unnamed>" in called:  # several classes can be called that
            return self.found(root, path, facts, inline)
        if called not in self.made:
            # One place leads: the others wait for what it finds.
            if self.leads.setdefault(called, (root, path)) != (root, path):
                return None
            try:
                layout = self.found(root, path, facts, inline)
            except _Refused as refused:
                self.made[called] = refused
            else:
                if layout is None:
                    return None
                self.made[called] = layout
        made = self.made[called]
        if isinstance(made, _Refused):
            raise made
        return made

    def found(
        self, root: TypeOf | ParameterType, path: tuple[MemberStep, ...], facts: TypeFacts, inline: DeclaredClass | None
    ) -> ClassLayout | None:
        """The layout by the first of the declarations that the class can have."""
        called = facts.target
        first: _Refused | None = None
        for group in [[inline]] if inline is not None else self.candidates(called):
            tried = [self.tried(root, path, facts, one) for one in group]
            layout = next((one for one in tried if isinstance(one, ClassLayout)), None)
            if layout is not None or None in tried:
                return layout
            first = first or next(one for one in tried if isinstance(one, _Refused))
        raise first or _Refused(f"the declaration of '{called}' is in no file that the source includes")

    def tried(
        self, root: TypeOf | ParameterType, path: tuple[MemberStep, ...], facts: TypeFacts, one: DeclaredClass
    ) -> ClassLayout | _Misread | None:
        """The layout by one declaration; what shows that it is another class's; None while answers are awaited."""
        try:
            return self.with_class(root, path, facts, one)
        except _Misread as misread:
            return misread

    def candidates(self, name: str) -> Iterator[list[DeclaredClass]]:
        """The classes of that name, looked for no further than they are tried."""
        if name not in self.classes:
            self.classes[name] = ([], self.records.candidates(name))
        known, rest = self.classes[name]
        yield from known
        for one in rest:
            known.append(one)
            yield one

    def ask_ahead(
        self, root: TypeOf | ParameterType, path: tuple[MemberStep, ...], of: DeclaredClass, depth: int
    ) -> None:
        """Ask for the members of a class that is likely there, and for theirs."""
        for one in _flat(of.members):
            if one.kind != "bits":
                self.answer(_question(root, path, one))
            if depth and one.kind in ("member", "base"):
                inner = one.record or self.records.near(one.type)
                if inner is not None and inner is not of:
                    self.ask_ahead(root, (*path, MemberStep(one.name, one.kind == "base")), inner, depth - 1)

    def with_class(
        self, root: TypeOf | ParameterType, path: tuple[MemberStep, ...], facts: TypeFacts, of: DeclaredClass
    ) -> ClassLayout | None:
        """The layout by what a class of the tree declares; None while answers are awaited."""
        fields: dict[int, Field] = {}
        waiting = False
        for one in _flat(of.members):
            if one.kind == "virtual":
                raise _Refused(f"'{facts.target}' has virtual base classes")
            if one.kind == "bits":
                raise _Refused(f"'{one.name}' is a bit-field of '{facts.target}'")
            answer = self.answer(_question(root, path, one))
            if answer is None:
                waiting = True
                continue
            if isinstance(answer, Unanswered):
                if one.conditional and "has no member" in answer.reason:
                    continue
                what = f"base class '{one.type}'" if one.kind == "base" else f"member '{one.name}'"
                cause = _Misread if "has no member" in answer.reason else _Refused
                raise cause(f"of its {what} the compiler says: {answer.reason}")
            assert isinstance(answer, MemberFacts)
            if one.conditional and any(other.name == one.name for other in fields.values()):
                continue  # of another branch
            if not answer.own:
                raise _Misread(f"'{one.name}' is a member of a base class of '{facts.target}'")
            layout = None
            if (
                not answer.facts.depth
                and answer.facts.target_kind in ("class", "union")
                and element(answer.facts) is None
            ):
                step = MemberStep(one.name, one.kind == "base")
                try:
                    layout = self.layout(root, (*path, step), answer.facts, one.record)
                except _Refused as refused:
                    within = "its base class" if one.kind == "base" else "its member"
                    raise _Refused(f"{within} '{one.name}' ('{answer.facts.target}'): {refused}") from None
                waiting = waiting or layout is None
            name = "" if one.kind == "base" else one.name
            fields[id(one)] = Field(name, answer.offset, answer.facts, layout)
        if waiting:
            return None
        reason = unexplained(of, fields, facts.target_size, facts.target_align)
        if reason:
            raise _Misread(f"'{facts.target}': {reason}")
        return ClassLayout(facts.target, facts.target_size, facts.target_align, tuple(fields.values()))


def _flat(members: Sequence[DeclaredMember]) -> Iterator[DeclaredMember]:
    """The members with names, and bit-fields; those of nameless groups are the class's own."""
    for one in members:
        if one.kind == "group":
            yield from _flat(one.members)
        elif one.name or one.kind == "bits":
            yield one


def _question(root: TypeOf | ParameterType, path: tuple[MemberStep, ...], one: DeclaredMember) -> Member:
    return Member(root, (*path, MemberStep(one.name, one.kind == "base")))
