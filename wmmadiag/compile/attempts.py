"""What one attempt to compile leads to: the compiler's errors tell what else is host code, or not there to be had."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wmmadiag.compile.blanking import without_host_code
from wmmadiag.compile.diagnostics import Diagnostic, error_from, error_hint
from wmmadiag.compile.host_only import Declaration, for_host_too, in_operand, judged, kernels_reach
from wmmadiag.compile.instantiations import KernelTemplate, boolean_choices
from wmmadiag.compile.missing import read_with, where_to_find
from wmmadiag.compile.model import CompileNote
from wmmadiag.compile.own_files import OwnFiles
from wmmadiag.compile.sources import SourceFile
from wmmadiag.compile.standard import from_libcu, likely_headers, missing_headers
from wmmadiag.errors import CompileError
from wmmadiag.place import Place

_NOT_FOUND = re.compile(r'cannot open source file "([^"]+)"')
_BAD_EXPRESSION = re.compile(r'Input name expression was: "\s*(.*?)\s*"')
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_QUOTED = re.compile(r'"([^"]*)"')
_MAX_EXPRESSIONS = 128
_PARDONS = 2


@dataclass
class Attempts:
    """The state of a compilation between two attempts."""

    own: OwnFiles  # the user's files
    templates: Sequence[KernelTemplate]  # the kernel templates that there are
    expressions: list[str]  # name expressions found in host code
    # key of a file → its declarations; a library's file is here once the compiler refused something in it
    parts: dict[str, tuple[Declaration, ...]]
    # key of a file → what is compiled at its end: its extended lambdas as classes
    classes: Mapping[str, bytes] = field(default_factory=dict)
    standard: list[str] = field(default_factory=list)  # standard headers that are read first
    # header that was not found, and is taken as empty → the directive that names it, as the compiler refused that
    empty: dict[str, Diagnostic] = field(default_factory=dict)
    refused: dict[str, dict[tuple[int, int], Diagnostic]] = field(default_factory=dict)
    kept: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    named: Sequence[str] = ()  # what else the compiler is asked for
    # key of a file → how often what was left out of it was brought back
    pardoned: dict[str, int] = field(default_factory=dict)
    _met: set[tuple[Place, str]] = field(default_factory=set)  # errors of the attempt before
    _skipped: list[CompileNote] = field(default_factory=list)
    _reached: frozenset[str] | None = None
    _texts: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._files: dict[str, SourceFile] = {file.name: file for file in self.own.tree.every()}
        self._lines: dict[str, list[int]] = {}
        self.standard += likely_headers(self.own.tree)

    def resume(self, earlier: Attempts) -> None:
        """Begin with what an earlier compilation of the same files led to."""
        self.standard = list(earlier.standard)
        self.empty |= earlier.empty
        self.refused = {key: dict(some) for key, some in earlier.refused.items()}
        self.kept = {key: set(some) for key, some in earlier.kept.items()}
        self.parts |= {key: parts for key, parts in earlier.parts.items() if key not in self.parts}

    def resume_headers(self, earlier: Attempts) -> None:
        """Begin with what an earlier compilation of the same files left out of libraries' headers: host code there is
        so whatever is compiled behind them, and what is missed is brought back. What is not there stays so, too."""
        self.standard = list(earlier.standard)
        self.empty |= earlier.empty
        for key in self.own.tree.outside.keys() & earlier.refused.keys():
            self.refused[key] = dict(earlier.refused[key])
            self.parts.setdefault(key, earlier.parts[key])

    def texts(self) -> dict[str, bytes]:
        """What to compile in place of the files of which something is left out, by key."""
        for key, parts in self.parts.items():
            if key not in self._texts:
                source = self.own.parsed(self._file(key))
                refused, kept = self.refused.get(key, {}), self.kept.get(key, set())
                self._texts[key] = without_host_code(source, parts, refused, kept) + self.classes.get(key, b"")
        return self._texts

    def notes(self) -> tuple[CompileNote, ...]:
        """What was left out that somebody may miss."""
        stubs = [
            CompileNote(
                "stub-header",
                f"{name} was not found and is taken as empty;"
                f" if device code needs it, {where_to_find(name, error.place.file)}",
                Place(error.place.file, error.place.line),
            )
            for name, error in self.empty.items()
        ]
        return (*stubs, *self._blanked(), *self._skipped)

    def react(self, errors: Sequence[Diagnostic]) -> bool:
        """Change what is compiled so that another attempt can do better; False when nothing is left to try."""
        wanted = missing_headers(errors) - set(self.standard)
        if wanted:
            # nvcc reads host headers first, and sources rely on what these bring; other errors may follow from it.
            self.standard += sorted(wanted)
            return True
        progress = self._restore(errors)
        if progress:
            return True
        # What one attempt leaves as it was, the next ones do, too: nothing around it is host code that can go.
        met, self._met = self._met, {(one.place, one.message) for one in errors}
        stays = [one for one in errors if (one.place, one.message) in met]
        if wanted := from_libcu(stays) - set(self.standard):
            self.standard += sorted(wanted)
            return True
        for error in errors:
            missing = _NOT_FOUND.search(error.message)
            expression = _BAD_EXPRESSION.search(error.message)
            if missing:
                progress = self._stub(missing[1], error) or progress
            elif expression:
                progress = self._skip(expression[1], error, errors) or progress
            else:
                progress = self._refuse(error) or progress
        progress = progress or self._bring(errors) or self._pardon(errors)
        if not progress and self.expressions:
            # An instantiation that the host code may never make: the plain kernels are worth having without it.
            first = errors[0] if errors else None
            reason = f"{first.place}: {first.message}" if first else "the compiler failed"
            self._skipped += [_skipped_note(text, reason) for text in self.expressions]
            self.expressions.clear()
            return True
        return progress

    def failure(self, errors: Sequence[Diagnostic], log: str) -> CompileError:
        """The errors that remain, led by those in declarations that were taken for host code and are missed now."""
        missed = {name for error in errors for name in re.findall(r'"([A-Za-z_]\w*)"', error.message)}
        names = {(key, part.extent): part.item.name for key, some in self.parts.items() for part in some}
        hidden = [
            error
            for key, some in self.refused.items()
            for extent, error in some.items()
            if names.get((key, extent)) in missed
        ]
        hint = ""
        for error in errors:
            found = _NOT_FOUND.search(error.message)
            if found:
                hint = where_to_find(found[1], error.place.file)
        own = [name for name, error in self.empty.items() if f'"{name}"' in "\n".join(error.lines[1:])]
        if own and not hint:  # what the source's author wrote: the rest is about what stands in there
            hidden += [self.empty[name] for name in own]
            hint = where_to_find(own[0], self.empty[own[0]].place.file)
        elif not hint and self.empty:
            known = (f"{name}: {where_to_find(name, error.place.file)}" for name, error in self.empty.items())
            hint = f"not found and taken as empty: {'; '.join(known)}"
        hint = self._host_hint(missed) or hint or error_hint(errors)
        root = self.own.tree.root
        end = Place(root.name, len(root.data.splitlines()))
        return error_from([self._as_written(error) for error in (*hidden, *errors)], log, end, hint=hint)

    def _as_written(self, error: Diagnostic) -> Diagnostic:
        """The error with headers by their own names; a directive that was aimed at one as it stands in its file."""
        text = "\n".join(error.lines)
        if '#include "/' not in text and "#include file" not in text:
            return error
        names = {key: file.name for file in self._files.values() if (key := f'"{file.key}"') in text}
        message, place, lines = error.message, error.place, list(error.lines)
        for key, name in names.items():
            message = message.replace(key, f'"{name}"')
            lines[0] = lines[0].replace(key, f'"{name}"')
        file = self._files.get(place.file)
        if file is not None and len(lines) > 1 and any(key in lines[1] for key in names):
            low, high = self._extent(file, Place(place.file, place.line))
            lines[1:] = [f"  {file.data[low:high].decode('utf-8', 'replace').strip()}"]
            place = Place(place.file, place.line)
        return Diagnostic(error.kind, place, message, tuple(lines))

    def _host_hint(self, missed: set[str]) -> str:
        for key, parts in self.parts.items():
            for part in parts:
                if part.verdict == "host" and part.item.name in missed:
                    place = self.own.parsed(self._file(key)).place_at(part.item.start)
                    return (
                        f"{part.item.name} ({place.file}:{place.line}) is host code, which a kernel cannot use;"
                        " mark it __device__ or constexpr"
                    )
        return ""

    def _restore(self, errors: Sequence[Diagnostic]) -> bool:
        """Bring back what was left out although something needs it: a type or constant, or a function in an operand
        that is not evaluated."""
        found = False
        named = {name for error in errors for name in _QUOTED.findall(error.message) if name}
        words = {word for name in named for word in re.findall(r"[A-Za-z_]\w*", name)}
        unevaluated = {
            match[1] for error in errors if (match := _UNDEFINED.search(error.message)) and self._in_operand(error)
        }
        for key, parts in self.parts.items():
            kept = self.kept.setdefault(key, set())
            for part in parts:
                back = (part.dropped and part.item.name in words) or (
                    part.verdict == "host" and part.item.name in unevaluated
                )
                if back and part.extent not in kept and part.extent not in self.refused.get(key, {}):
                    kept.add(part.extent)
                    self._texts.pop(key, None)
                    found = True
        return found

    def _bring(self, errors: Sequence[Diagnostic]) -> bool:
        """Read first what of the standard library device code misses, what was taken for host code included."""
        hidden = [(key, extent, one) for key, some in self.refused.items() for extent, one in some.items()]
        lacking = [(key, extent, one) for key, extent, one in hidden if from_libcu([one])]
        wanted = from_libcu([*errors, *(one for _, _, one in lacking)]) - set(self.standard)
        if not wanted:
            return False
        self.standard += sorted(wanted)
        for key, extent, _ in lacking:
            del self.refused[key][extent]
            self._texts.pop(key, None)
        return True

    def _pardon(self, errors: Sequence[Diagnostic]) -> bool:
        """Bring back all that was left out of a file of which something is missed now.

        Its errors may have come of another declaration: a compiler that goes on behind what it cannot read takes
        namespaces for open that are closed. The user's files, which are read last, come first, since what was left out
        of headers may be what such errors came of; and once more after headers.
        """
        words = {word for one in errors for name in _QUOTED.findall(one.message) for word in re.findall(r"\w+", name)}
        missed = [
            key
            for key, some in self.refused.items()
            if any(part.extent in some and part.item.name in words for part in self.parts.get(key, ()))
        ]
        own = [key for key in missed if self._file(key).own and self.pardoned.get(key, 0) < _PARDONS]
        pardoned = own or [key for key in missed if key not in self.pardoned]
        for key in pardoned:
            self.pardoned[key] = self.pardoned.get(key, 0) + 1
            self.refused[key].clear()
            self._texts.pop(key, None)
        return bool(pardoned)

    def _in_operand(self, error: Diagnostic) -> bool:
        file = self._files.get(error.place.file)
        if file is None or not error.place.column:
            return False
        low, _ = self._extent(file, error.place)
        return in_operand(self.own.parsed(file), low)

    def _stub(self, name: str, error: Diagnostic) -> bool:
        if name in self.empty:
            return False
        file = self._files.get(error.place.file)
        low, high = self._extent(file, Place(error.place.file, error.place.line)) if file is not None else (0, 0)
        written = (f"<{name}>".encode(), f'"{name}"'.encode())
        if file is None or not any(one in file.data[low:high] for one in written):
            return False
        self.empty[name] = error
        for other, line in read_with(file.data, error.place.line, self.own.tree.unresolved):
            if other not in self.empty:
                message = error.message.replace(f'"{name}"', f'"{other}"')
                self.empty[other] = Diagnostic(error.kind, Place(error.place.file, line), message, error.lines[:1])
        return True

    def _skip(self, text: str, error: Diagnostic, errors: Sequence[Diagnostic]) -> bool:
        wanted = "".join(text.split())
        for expression in list(self.expressions):
            if "".join(expression.split()) != wanted:
                continue
            self.expressions.remove(expression)
            first = next(other for other in errors if other.place.line == error.place.line)
            unknown = _UNDEFINED.search(first.message)
            choices = boolean_choices(expression, unknown[1], self.templates) if unknown else ()
            if choices and len(self.expressions) < _MAX_EXPRESSIONS:
                self.expressions += [choice for choice in choices if choice not in self.expressions]
            else:
                self._skipped.append(_skipped_note(expression, first.message))
            return True
        return False

    def _refuse(self, error: Diagnostic) -> bool:
        """Take the declaration that the error stands in for host code, if it may be that.

        An assertion that does not hold is its author's word on the kernel, unless a stub stands for what it is about.
        """
        if error.message.startswith("static assertion failed") and not self.empty:
            return False
        for place in error.places():
            file = self._files.get(place.file)
            if file is None:
                continue
            part = self._part_at(file, place)
            known = self.refused.setdefault(file.key, {})
            if part is None or part.extent in known:
                return False
            kept = self.kept.setdefault(file.key, set())
            brought_back = part.dropped and part.extent in kept
            if part.verdict != "unsure" and not brought_back and not self._of_host_alone(file, part):
                return False
            kept.discard(part.extent)  # what named it is host code, too
            known[part.extent] = error
            self._texts.pop(file.key, None)
            return True
        return False

    def _of_host_alone(self, file: SourceFile, part: Declaration) -> bool:
        """Whether a function of both halves is one that no kernel can meet: nothing that runs hangs on it."""
        if not for_host_too(self.own.parsed(file), part.item):
            return False
        if self._reached is None:
            self._reached = kernels_reach(self.own.sources, (*self.expressions, *self.named))
        name = part.item.name if part.item.parent is None else part.item.scope.rpartition("::")[2]
        return name not in self._reached and name != "operator"

    def _part_at(self, file: SourceFile, place: Place) -> Declaration | None:
        """The smallest declaration around a place; the class, for a field of it."""
        if not 0 < place.line <= len(self._line_starts(file)):
            return None
        if file.key not in self.parts:
            found = judged({file.key: self.own.parsed(file)})[file.key]
            self.parts[file.key] = tuple(_left_whole(part) for part in found)
        low, high = self._extent(file, place)
        around = [
            part
            for part in self.parts[file.key]
            if part.item.start <= high
            and low <= part.item.end
            and not (part.item.parent is not None and part.item.kind == "variable")
            and part.extent not in self.refused.get(file.key, {})
        ]
        return min(around, key=lambda part: part.item.end - part.item.start, default=None)

    def _extent(self, file: SourceFile, place: Place) -> tuple[int, int]:
        """(first, last) offset of a place: one byte, or its line where the column is not known."""
        starts = self._line_starts(file)
        if not 0 < place.line <= len(starts):
            return 0, 0
        start = starts[place.line - 1]
        end = starts[place.line] - 1 if place.line < len(starts) else len(file.data)
        if not place.column:
            return start, end
        before = file.data[start:end].decode("utf-8", "surrogateescape")[: place.column - 1]
        at = start + len(before.encode("utf-8", "surrogateescape"))
        return at, at

    def _line_starts(self, file: SourceFile) -> list[int]:
        if file.key not in self._lines:
            self._lines[file.key] = [0, *(match.end() for match in re.finditer(rb"\n", file.data))]
        return self._lines[file.key]

    def _file(self, key: str) -> SourceFile:
        tree = self.own.tree
        return tree.root if key == tree.root.key else tree.headers.get(key) or tree.outside[key]

    def _blanked(self) -> Iterator[CompileNote]:
        """One note for each declaration of the user's that device code names, one for each header of a library."""
        for key, some in self.refused.items():
            file = self._file(key)
            found = [part for part in self.parts[key] if part.extent in some]
            lines = {part.extent: bisect.bisect_right(self._line_starts(file), part.item.start) for part in found}
            if file.own:
                for part in found:
                    if part.needed:
                        text = (
                            f"does not compile for the device and was taken for host code: {some[part.extent].message}"
                        )
                        yield CompileNote(
                            "blanked-code", f"{_called(part)} {text}", Place(file.name, lines[part.extent])
                        )
            elif found:
                first = found[0]
                what = _called(first) if len(found) == 1 else f"{len(found)} declarations, the first {_called(first)},"
                yield CompileNote(
                    "blanked-code",
                    f"of this header {what} was left out: it does not compile for the device"
                    f" ({some[first.extent].message})",
                    Place(file.name, lines[first.extent]),
                )


def _called(part: Declaration) -> str:
    return f"`{part.item.name}`" if part.item.name else "a declaration"


def _left_whole(part: Declaration) -> Declaration:
    """A declaration of a library's header: nothing of it is host code before the compiler says so."""
    return Declaration(part.item, "unsure", part.needed) if part.verdict == "host" else part


def _skipped_note(expression: str, reason: str) -> CompileNote:
    return CompileNote(
        "skipped-instantiation",
        f"host code names {expression}, which could not be instantiated ({reason});"
        f" give its arguments as a name expression",
    )
