"""What else might stand at a place: names, numbers and expressions that are visible there."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from wmmadiag.csource.scalars import scalar_named
from wmmadiag.csource.types import INTEGER, Type
from wmmadiag.diagnose.operators.cuda_names import LAUNCH_VARIABLES, NAMES, THREAD_VARIABLES
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program

_MOST_NUMBERS = 4
MOST_UNREAD = 3
"""Names that nothing reads and that were made for something: of more, they were not made for this kernel."""


Slot = tuple[str, str, int]
"""Where an operand stands: what it is an operand of, with what, as which one."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A name that can be read: a variable, a constant, a member."""

    text: str
    type: Type
    varying: bool | None
    root: str  # the variable that it begins with; "" where it needs none
    constant: bool  # whether the compiler knows its value


class Pools:
    """The atoms and numbers of a program, read once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.roles: dict[str, set[str]] = defaultdict(set)
        self.uses: Counter[str] = Counter()
        self.slots: dict[Slot, set[str]] = defaultdict(set)
        self._numbers: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        self._scoped: dict[str, Atom] = {}
        self._seen: dict[int, list[Atom]] = {}
        self._unread: dict[int, frozenset[str]] = {}
        # Variables, by what their initial values are made of.
        self.made_of: dict[str, set[str]] = defaultdict(set)
        self.signed: set[str] = set()  # those that an array has, or that are differences: they may be below nought
        for body in program.bodies:
            for statement in body.statements:
                for variable, value in statement.initial_values():
                    self.made_of[variable.name].update(value.names)
                    if value.kind == "subscript" or value.operator == "-":
                        self.signed.add(variable.name)
        for one in program.all_expressions():
            if not one.atom:
                continue
            self.roles[one.text].add(one.role)
            self.uses[one.text] += 1
            self.slots[slot(one)].add(one.text)
            if one.kind == "literal":
                held = self._numbers[one.type.kind, _use(one)]
                held[one.text] = held.get(one.text, 0) + 1
            elif one.kind == "member" or "::" in one.text:
                root = _root(one)
                self._scoped.setdefault(one.text, Atom(one.text, one.type, one.varying, root, "::" in one.text))
                if one.kind == "name":
                    self._siblings_of_constant(one)
                else:
                    self._siblings_of_member(one)
        for name, kind in program.reader.constants.items():  # of these nothing may read one
            self._scoped.setdefault(name, Atom(name, kind, False, "", True))

    def at(self, one: Expression) -> list[Atom]:
        """The atoms that are visible where an expression stands."""
        scope = one.unit.scopes.at(one.start)
        found = self._seen.get(id(scope))
        if found is not None:
            return found
        names = self.program.names_at(one.unit, one.start)
        atoms = []
        for name, variable in names.items():
            reader = self.program.reader
            kind, varying = reader.type_of(variable), reader.varies(variable)
            atoms.append(Atom(name, kind, varying, name, variable.constant))
        for atom in self._scoped.values():
            if not atom.root or atom.root in names or atom.root in NAMES:
                atoms.append(atom)
        self._seen[id(scope)] = atoms
        return atoms

    def unread_members(self, one: Expression) -> frozenset[str]:
        """The members visible where an expression stands that nothing reads; none where there are many: then the kernel
        is one of several that their class was made for."""
        atoms = self.at(one)
        if id(atoms) not in self._unread:
            found = [atom for atom in atoms if atom.root not in ("", atom.text) and atom.text not in self.roles]
            self._unread[id(atoms)] = (
                frozenset(atom.text for atom in found) if len(found) <= MOST_UNREAD else frozenset()
            )
        return self._unread[id(atoms)]

    def alike(self, number: Expression) -> list[str]:
        """Other numbers of the program that are used as this one is, the most frequent first."""
        held = self._numbers[number.type.kind, _use(number)]
        return sorted((one for one in held if one != number.text), key=lambda one: -held[one])[:_MOST_NUMBERS]

    def visible(self, wanted: Expression, at: Expression) -> bool:
        """Whether all that an expression names can be named where another one stands."""
        names = self.program.names_at(at.unit, at.start)
        known = at.unit.names
        return all(text in names or text in known or text in NAMES or self._anywhere(text) for text in wanted.names)

    def visible_within(self, wanted: Expression, at: Statement, head: str) -> bool:
        """Whether an expression can be named after a statement, in a loop whose head declares what else it names."""
        names = self.program.names_at(at.unit, at.end)
        return all(
            text in names or text in NAMES or self._anywhere(text) or f" {text} =" in head for text in wanted.names
        )

    def _anywhere(self, text: str) -> bool:
        """Whether a name that no scope has stands for the same everywhere: a macro, or one with a scope written."""
        return "::" in text or text in self.program.reader.constants or text.isupper()

    def _siblings_of_member(self, one: Expression) -> None:
        held = one.operands[0]
        of = held.type.of if held.type.kind == "pointer" and held.type.of is not None else held.type
        if held.kind != "name":
            return
        access = one.text[: len(one.text) - len(one.operator)]
        if held.text in (*THREAD_VARIABLES, *LAUNCH_VARIABLES):
            for base in THREAD_VARIABLES if held.text in THREAD_VARIABLES else LAUNCH_VARIABLES:
                for axis in "xyz":
                    text = f"{base}.{axis}"
                    if base == held.text or axis == one.operator:
                        self._scoped.setdefault(text, Atom(text, INTEGER, base in THREAD_VARIABLES, "", False))
            return
        known = scalar_named(of.name)
        for axis in "xyzw"[: known.lanes] if known is not None and known.vector else "":  # one may be named nowhere
            self._scoped.setdefault(access + axis, Atom(access + axis, one.type, one.varying, held.text, False))
        record = self.program.reader.types.records.get(of.name)
        for member in record.members if record is not None else ():
            text = access + member.name
            kind = self.program.reader.types.variable(member)
            self._scoped.setdefault(text, Atom(text, kind, one.varying, held.text, False))

    def _siblings_of_constant(self, one: Expression) -> None:
        scope, _, _ = one.text.rpartition("::")
        record = self.program.reader.types.records.get(self.program.reader.types.read(scope).name)
        held = [member for member in record.members if {"static", "constexpr"} & member.words] if record else []
        held += [known.variable for known in one.unit.scopes.spaces.get(tuple(scope.split("::")), ())
                 if known.variable.constant]  # fmt: skip
        for member in held:
            if member.name:
                text = f"{scope}::{member.name}"
                kind = self.program.reader.types.variable(member)
                self._scoped.setdefault(text, Atom(text, kind, False, "", True))


def slot(one: Expression) -> Slot:
    """The slot of an expression: an argument of a function, an index of an array, an operand beside another one."""
    around = one.parent
    if around is None:
        return "", one.role, 0
    if around.kind == "subscript" and one.number:
        return "subscript", around.operands[0].text, one.number
    if around.kind in ("binary", "assignment") and len(around.operands) == 2:
        division = around.operator in ("/", "%")
        return "/" if division else around.operator, around.operands[1 - one.number].text, one.number
    return around.kind, around.operator, one.number


_SIZES = frozenset({"leading dimension", "pitch", "dimension", "constant"})


def _use(number: Expression) -> str:
    """What a number is used for: its role, and the operation that it is part of; sizes are all one."""
    around = number.parent
    if number.role == "template argument":
        return "template argument"
    if number.role in _SIZES or not number.type.whole:
        return "size"
    return number.role + (around.operator if around is not None and around.kind == "binary" else "")


def _root(one: Expression) -> str:
    while one.kind == "member":
        one = one.operands[0]
    return "" if "::" in one.text else one.text


def pools(program: Program) -> Pools:
    """The pools of a program."""
    return program.once(Pools)
