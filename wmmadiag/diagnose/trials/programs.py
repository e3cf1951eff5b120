"""Programs of trials: a batch of changes compiled as one, what the compiler refuses left out; static changes singly.

An alternative that the compiler's message names is refused; one that it names for its type alone is compiled singly,
since as text it may convert. A message that names none halves the batch until it does, and what is then alone is
compiled singly, too: a place may need a constant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

from wmmadiag.compile import ptx_scan
from wmmadiag.compile.diagnostics import errors_in
from wmmadiag.compile.names import base_name
from wmmadiag.compile.nvrtc import ENDED, NvrtcResult, run_nvrtc
from wmmadiag.compile.precompiled import Folder, in_use, precompiling
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.diagnose.changes import Change, impossible
from wmmadiag.diagnose.trials.blame import blame
from wmmadiag.diagnose.trials.compiled import Batch, Kernels, Program
from wmmadiag.diagnose.trials.copies import Definition, copied, in_wrapper, own_texts, refused_copies
from wmmadiag.diagnose.trials.holes import Hole, blamed
from wmmadiag.diagnose.trials.holes import header as fillings
from wmmadiag.diagnose.trials.holes import render as render_holes
from wmmadiag.diagnose.trials.parts import DEAR_PTX
from wmmadiag.diagnose.trials.preamble import PREAMBLE, STOP
from wmmadiag.diagnose.trials.prepared import Prepared
from wmmadiag.diagnose.trials.rolling import Loops, rolled
from wmmadiag.diagnose.trials.schemata import HEADER, directives, header, inside, render
from wmmadiag.emulator import EmulatedKernel, EmulatorOptions, lower
from wmmadiag.errors import CompileError, WmmadiagError
from wmmadiag.ptx import parse, parse_each
from wmmadiag.ptx.ir import Module

Level: TypeAlias = Literal["fast", "full"]
"""How much the compiler optimises: little, so that it is soon done; or as for the user's own program."""
How: TypeAlias = tuple[Level, bool, bool, bool]
"""How a program is compiled: `level`, `rolled`, `ahead`, `minimal`."""
Edits: TypeAlias = Mapping[str, Sequence[ByteEdit]]
"""What is changed of each file, by the path that messages show."""
_FAST = "--Ofast-compile=min"
"""In more haste it copies what may fill a hole in each round of a loop, and a trial takes six times as long."""
_MINIMAL = "--minimal"
"""NVRTC reads less of its own before each program: neither textures nor the types of the runtime's interface."""
_UNROLLED = 8
"""Changes of one program whose loops are unrolled, which only a kernel that does something else otherwise needs."""
_FEW = 4
"""So many changes that no message tells apart are compiled singly at once: halves of three are five compilations."""

_ROUNDS = 8
"""Compilations of one program with holes: the compiler names some of what it refuses each time."""
_KEPT = 32
"""Programs of copies that are kept for further changes that give the same one."""


class Programs:
    """Compiles changes of one prepared source. Changes are of the user's files, `Prepared.sources`.

    Args:
        like: others, whose precompiled headers serve these as well; of the same source, the unchanged programs, too.

    Attributes:
        level: of programs of one text.
        rolled: whether loops stay loops: alternatives in an unrolled loop are as many branches as it has rounds, and
            the compiler's time grows with all ways through them, to minutes.
        dear: whether a compilation is much more work than what changes add to it.
        minimal: whether the compiler leaves out what few kernels need; not where its refusal would be dear.
        ahead: whether headers that nothing changes are read first, see `preamble`.
        spares: whether programs of changes are worth unrolled loops where few alternatives are, see `rolling`; those
            with holes are.
        compilations: how many there were.
        misleading: changes with which a program of several does not what the kernel does: each is compiled by itself.
    """

    def __init__(self, prepared: Prepared, like: Programs | None = None) -> None:
        self.prepared = prepared
        self.level: Level = "fast"
        self.rolled = True
        self.dear: bool = len(prepared.own.ptx) > DEAR_PTX
        self.minimal: bool = like.minimal if like is not None else not self.dear
        self.ahead: bool = like is None or like.ahead
        self.spares = False
        self.compilations = 0
        self.misleading: set[Change] = set()
        self._alike: dict[str, Program | str] = {}  # by what the compiler made of a copy: many changes give the same
        self._wrapped: bool | None = None
        self._folder: Folder = like._folder if like is not None else Folder()
        same = like is not None and like.prepared is prepared
        self._unchanged: dict[How | None, Program] = like._unchanged if like is not None and same else {}
        self._loops: Loops | None = like._loops if like is not None and same else None
        self._directives = {file: directives(text) for file, text in prepared.texts.items()}

    @property
    def how(self) -> How:
        """How a program is compiled from now on."""
        return self.level, self.rolled, self.ahead, self.minimal

    def own(self) -> Program:
        """The source as it is, optimised as the user's own program.

        Raises:
            WmmadiagError: it cannot be emulated.
        """
        return self._once(None, lambda: self._loaded(self.prepared.own))

    def plain(self) -> Program:
        """The source as it is.

        Raises:
            WmmadiagError: it does not compile, or cannot be emulated.
        """
        try:
            return self._once(self.how, lambda: self._loaded(self._good({})))
        except WmmadiagError:
            if self.minimal:  # what is left out is used, or the compiler leaves out nothing
                self.minimal = False
                return self.plain()
            if self.ahead:
                self.ahead = False
                return self.plain()
            if self.level == "full":
                raise
            # A compiler that knows no haste, or does not know all that it compiles otherwise (NVRTC 13.5: `__dp4a`).
            self.level = "full"
            return self.plain()

    def _once(self, key: How | None, made: Callable[[], Kernels]) -> Program:
        """A program without a change, made once; None: as the user's own."""
        if key not in self._unchanged:
            self._unchanged[key] = Program(made(), {})
        return self._unchanged[key]

    def single(self, change: Change) -> Program:
        """The source with one change made in its text.

        Raises:
            WmmadiagError: it does not compile, or cannot be emulated.
            ValueError: its edits overlap, or are of another file.
        """
        edits: dict[str, list[ByteEdit]] = {}
        for one in change.edits:
            edits.setdefault(one.file, []).append(ByteEdit(one.start, one.end, one.text))
        return Program(self._loaded(self._good(edits)), {})

    def apart(self, changes: Sequence[Change]) -> Iterator[tuple[Change, Program | str]]:
        """Programs of one text each, or why there is none; those that change the kernel's definition alone are
        compiled together, as copies of it, and those of what its file says before it as copies of both."""
        done: set[Change] = set()
        for definition in (self.prepared.definition, self.prepared.whole):
            if definition is None:
                continue
            together = tuple(one for one in changes if one not in done and definition.holds(one))
            waiting = deque([together] if len(together) > 1 and (not definition.whole or self._wraps()) else [])
            while waiting:
                group = waiting.popleft()
                found = self._copied(group, definition)
                for change, one in found.items():
                    if one is not None:
                        done.add(change)
                        yield change, one
                left = tuple(one for one in group if one not in found)
                if left and len(left) < len(group):
                    waiting.append(left)
                elif len(left) > _FEW:
                    waiting += [left[: len(left) // 2], left[len(left) // 2 :]]
        for change in changes:
            if change not in done:
                try:
                    yield change, self.single(change)
                except (WmmadiagError, ValueError) as error:
                    yield change, error.message if isinstance(error, WmmadiagError) else str(error)

    def _wraps(self) -> bool:
        """Whether a copy of a whole file that changes nothing can be compiled: in a namespace not everything can."""
        if self._wrapped is None and self.prepared.whole is not None:
            none = Change("", (), "static", "", "")
            try:
                self._wrapped = isinstance(self._copied((none,), self.prepared.whole).get(none), Program)
            except WmmadiagError:
                self._wrapped = False
        return bool(self._wrapped)

    def _copied(self, group: Sequence[Change], definition: Definition) -> Mapping[Change, Program | str | None]:
        """The programs of some changes, or what the compiler says of others; None of those that only a compilation of
        their own can tell."""
        try:
            copies = copied(self.prepared.texts, definition, group)
        except ValueError:
            return dict.fromkeys(group)
        expressions = [
            in_wrapper(one, number) if definition.whole else one for number, name in enumerate(copies.names.values(), 1)
            for one in self.prepared.renamed(name)
        ]  # fmt: skip
        result = self._compiled({definition.file: (copies.edit,)}, expressions)
        if not result.ok:
            return refused_copies(errors_in(result.log), definition, copies)
        entries = {base_name(name): name for name in ptx_scan.entry_names(result.ptx)}
        texts = own_texts(result.ptx, entries)
        own = {change: texts[name] for change, name in copies.names.items() if name in texts}
        try:
            made = self._of_texts(result.ptx, {own[one]: entries[copies.names[one]] for one in reversed(own)})
        except WmmadiagError:  # one copy's inline assembly ends its kernel: which one, fewer of them tell
            return {}
        return {change: made[own[change]] if change in own else None for change in copies.names}

    def _of_texts(self, ptx: str, entries: Mapping[str, str]) -> Mapping[str, Program | str]:
        """The programs of some entries, or why there is none; what has the same text has the same program, and is read
        and lowered once.

        Args:
            entries: text, see `own_texts` → an entry that has it.

        Raises:
            WmmadiagError: what stands outside of kernels cannot be read.
        """
        made = {text: self._alike[text] for text in entries if text in self._alike}
        new = {text: entry for text, entry in entries.items() if text not in made}
        if new:
            module, unread = parse_each(ptx, name=self.prepared.root, entries=tuple(new.values()))
            for text, entry in new.items():
                try:
                    if entry in unread:  # its inline assembly is none
                        raise unread[entry]
                    (called,) = self.prepared.entries
                    made[text] = Program({called: self._lowered(module, entry)}, {})
                except WmmadiagError as error:
                    made[text] = error.message
        self._alike |= {text: made[text] for text in new}
        while len(self._alike) > _KEPT:
            del self._alike[next(iter(self._alike))]
        return made

    def batch(self, changes: Sequence[Change], *, two: bool = False) -> Batch:
        """As few programs as can be for these changes, static ones aside.

        Args:
            two: of each program any two changes may be selected together.
        """
        done = Batch()
        # Messages about a macro are where it is used, perhaps on the line of another change: those are compiled apart.
        plain: list[Change] = []
        of_macros: list[Change] = []
        for change in changes:
            problem = impossible(change, self.prepared.texts)
            if problem:
                done.refused.append((change, problem))
            elif change.kind == "static" or change in self.misleading:
                done.singles.append(change)
            else:
                (of_macros if self._of_macros(change) else plain).append(change)
        most = len(changes) if self.rolled else _UNROLLED
        waiting = deque(tuple(some[at : at + most]) for some in (plain, of_macros) for at in range(0, len(some), most))
        while waiting:
            group = waiting.popleft()
            if group:
                waiting += self._attempt(group, done, two)
        return done

    def _of_macros(self, change: Change) -> bool:
        return any(inside(self._directives.get(one.file, []), one.start, one.end) for one in change.edits)

    def _attempt(self, group: tuple[Change, ...], done: Batch, two: bool) -> list[tuple[Change, ...]]:
        """One program of a group, less what is refused on the way; the groups that are to be tried apart from it."""
        later: list[tuple[Change, ...]] = []
        while group:
            schemata = render(self.prepared.texts, group, two=two)
            if schemata.left:
                later.append(schemata.left)
            number = {change: key for key, change in schemata.changes.items()}
            result = self._compiled(schemata.edits, spared=self.spares)
            errors = errors_in(result.log) if not result.ok else ()
            said = blame(errors, schemata, self.prepared.texts)
            if result.ok:
                try:
                    kernel = self._loaded(result)
                except WmmadiagError:
                    pass
                else:
                    done.programs.append(Program(kernel, schemata.changes))
                    return later
            done.refused += [(schemata.changes[key], message) for key, message in said.refused.items()]
            few = said.suspects - said.refused.keys() if len(said.suspects) <= _FEW else set()
            done.singles += [schemata.changes[key] for key in sorted(said.other_type | few)]
            gone = said.refused.keys() | said.other_type | few
            if not gone and self._otherwise():
                continue
            if not gone:
                gone = said.suspects or set(number.values())
                apart = tuple(schemata.changes[key] for key in sorted(gone))
                if len(apart) <= _FEW:
                    done.singles += apart
                else:
                    later += [apart[: len(apart) // 2], apart[len(apart) // 2 :]]
            group = tuple(one for one, key in number.items() if key not in gone)
        return later

    def _otherwise(self) -> bool:
        """Whether programs are compiled otherwise from now on: as they were, the source as it is does not compile."""
        before = self.how
        with suppress(WmmadiagError):
            self.plain()
        return self.how != before

    def _good(self, edits: Edits) -> NvrtcResult:
        result = self._compiled(edits)
        if not result.ok:
            errors = errors_in(result.log)
            died = result.status if result.status.startswith(ENDED) else "the compiler failed"
            raise CompileError(errors[0].message if errors else died, detail=result.log.strip())
        return result

    def with_holes(self, holes: Sequence[Sequence[Hole]]) -> tuple[Kernels | None, Mapping[int, frozenset[int]]]:
        """A program of some holes, alone or such as are filled alike, and the slots that each has, by their places in
        the sequence.

        What the compiler's messages name is left out; a hole without slots is none. None where nothing is left.
        """
        left = {number: (alike, list(range(1, len(alike[0].slots)))) for number, alike in enumerate(holes)}
        for _ in range(_ROUNDS):
            left = {number: one for number, one in left.items() if one[1]}
            if not left:
                break
            rendered = render_holes(self.prepared.texts, left)
            result = self._compiled(rendered.edits, further=fillings(), spared=True)
            if result.ok:
                try:
                    return self._loaded(result), {number: frozenset((0, *slots)) for number, (_, slots) in left.items()}
                except WmmadiagError:
                    break
            slots, around = blamed(errors_in(result.log), rendered)
            if not slots and not around:
                break
            for number in around:
                left.pop(number, None)
            left = {
                number: (alike, [slot for slot in own if (number, slot) not in slots])
                for number, (alike, own) in left.items()
            }
        return None, {}

    def _compiled(
        self,
        edits: Edits,
        expressions: Sequence[str] | None = None,
        further: bytes = b"",
        *,
        spared: bool = False,
    ) -> NvrtcResult:
        """Compile the source with edits.

        Args:
            further: text behind the header that each program reads first.
            spared: only such loops stay loops as what is changed is in, see `rolling`.
        """
        self.compilations += 1
        prepared = self.prepared
        if self.rolled and spared:
            self._loops = self._loops or Loops(prepared.texts)
            prepared = replace(prepared, texts=self._loops.spared(edits))
        own = not any(some for file, some in edits.items() if file != prepared.root)
        if self.ahead:
            edits = {**edits, prepared.root: [*edits.get(prepared.root, ()), *prepared.guard]}
        root, headers = prepared.changed(edits)
        if self.rolled:
            root, headers = rolled(root), {name: rolled(text) for name, text in headers.items()}
        headers[HEADER] = header() + further
        first = {HEADER: headers[HEADER]}
        if self.ahead:
            first[PREAMBLE] = headers[PREAMBLE] = prepared.preamble
        flags = [*prepared.options, *(f"--pre-include={one}" for one in first)]
        flags += [_MINIMAL] if self.minimal else []
        # A changed header makes another precompiled one, which nothing would use again: what comes before it is kept.
        kept = own or self.ahead
        if kept:
            flags += precompiling(headers if own else first, self._folder.path, prepared.tools)
        asked = partial(
            run_nvrtc, root if own else STOP + root, prepared.root, headers=headers,
            name_expressions=prepared.expressions if expressions is None else expressions, again_and_again=True,
        )  # fmt: skip
        with in_use() if kept else nullcontext():
            result = asked([*flags, *([_FAST] if self.level == "fast" else [])])
            # In haste it dies of what it compiles otherwise (NVRTC 13.5: a loop that waits for a `cuda::barrier`).
            return asked(flags) if result.status.startswith(ENDED) and self.level == "fast" else result

    def _loaded(self, result: NvrtcResult) -> Kernels:
        entries = self.prepared.entries_of(result.ptx, result.lowered)
        if entries is None:
            raise CompileError(f"no kernel {', '.join(self.prepared.entries)} is left", detail=self.prepared.root)
        module = parse(result.ptx, name=self.prepared.root, entry=tuple(entries.values()))
        return {called: self._lowered(module, entry) for called, entry in entries.items()}

    def _lowered(self, module: Module, entry: str) -> EmulatedKernel:
        return EmulatedKernel(lower(module, entry, self.prepared.arch), EmulatorOptions())
