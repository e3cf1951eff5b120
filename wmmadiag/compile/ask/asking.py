"""A source compiled with questions behind it: all in one compilation, again without those that the compiler refuses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from wmmadiag.compile import cache
from wmmadiag.compile.ask.answers import (
    AddressFacts,
    Constant,
    KernelParameters,
    MemberFacts,
    TypeFacts,
    Unanswered,
    base_facts,
    constant,
    kernel_parameters,
    member_facts,
    type_facts,
    variables,
)
from wmmadiag.compile.ask.questions import (
    AddressOf,
    AskedSource,
    Member,
    Parameters,
    Question,
    TypeOf,
    ValueOf,
    problem,
    texts,
    variable,
    written,
)
from wmmadiag.compile.build import ASK, Built, build
from wmmadiag.compile.diagnostics import Diagnostic
from wmmadiag.compile.learned import learned
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.sources import SourceTree
from wmmadiag.compile.toolchain import Toolchain, check_arch, toolchain
from wmmadiag.errors import CompileError

Answer: TypeAlias = "Constant | TypeFacts | KernelParameters | MemberFacts | AddressFacts | Unanswered"

_FILE = "wmmadiag-question-"
_NAMED = re.compile(re.escape(_FILE) + r"(\d+)")
_NOTE = re.compile(r"\): note(?: #[\w-]+)?: (.*)")
_ASSERTED = re.compile(r'static assertion failed with "(.*)"')
_BUILTIN = re.compile(r" \(declared at line \d+ of __nv_nvrtc_builtin_header\.h\)")
_MOST_KEPT = 4096
_MOST_ROUNDS = 12
# The questions are written in C++17.
_OLDER = ("c++11", "c++14")


@dataclass(slots=True)
class Behind:
    """Questions behind a source, for `build`."""

    open: dict[int, Question]  # number → question that the compiler has not refused
    refused: dict[int, str] = field(default_factory=dict)  # number → the compiler's reason
    rounds: int = 0

    def text(self) -> str:
        """What to write behind the source."""
        parts = (f'\n#line 1 "{_FILE}{number}"\n{written(one, number)}' for number, one in self.open.items())
        return "".join(parts)

    def owner(self, error: Diagnostic) -> int | None:
        """The question that an error is about: it stands in it, or was met while the compiler worked on it."""
        for line in (error.place.file, *error.lines):
            match = _NAMED.search(line)
            if match is not None:
                return int(match[1])
        return None

    def drop(self, errors: Sequence[Diagnostic]) -> bool:
        """Leave out the questions that errors are about; False where they are about none."""
        found = {number: error for error in reversed(errors) if (number := self.owner(error)) in self.open}
        for number, error in found.items():
            assert number is not None
            self.refused[number] = reason_of(error)
            del self.open[number]
        self.rounds += 1
        if self.rounds == _MOST_ROUNDS:
            self.refused |= dict.fromkeys(self.open, "the compiler refused too many questions asked with this one")
            self.open.clear()
        return bool(found)


def reason_of(error: Diagnostic) -> str:
    """The compiler's message in one sentence, with the note that says why and the place in the user's file."""
    message = error.message
    note = next((match[1] for line in error.lines if (match := _NOTE.search(line))), "")
    asserted = _ASSERTED.fullmatch(message)
    if asserted is not None and error.place.file.endswith(ASK):
        message = asserted[1]
    elif note:
        message = f"{message}: {_BUILTIN.sub('', note)}"
    own = error.place.file.startswith(_FILE) or error.place.file.endswith(ASK)
    return message if own else f"{error.place}: {message}"


def ask(asked: AskedSource, questions: Sequence[Question]) -> dict[Question, Any]:
    """The compiler's answers: question → `Constant`, `TypeFacts`, `KernelParameters`, by its kind, or `Unanswered`.

    All questions that the cache does not answer go into one compilation.

    Raises:
        CompileError: the source does not compile without any question.
        ConfigurationError: a file or a part of the installation is missing.
    """
    return AskingSession(asked).ask(questions)


@dataclass(slots=True)
class AskingSession:
    """Questions to one source, which is read once."""

    asked: AskedSource
    _files: SourceFiles | None = None

    def ask(self, questions: Sequence[Question]) -> dict[Question, Any]:
        """As the function `ask`."""
        answers: dict[Question, Any] = {}
        open_ones: list[Question] = []
        for question in dict.fromkeys(questions):
            reason = next(filter(None, map(problem, texts(question))), "")
            if reason:
                answers[question] = Unanswered(reason)
            else:
                open_ones.append(question)
        return answers | (self._answered(open_ones) if open_ones else {})

    @property
    def files(self) -> SourceFiles:
        """The source and its headers."""
        if self._files is None:
            self._files = SourceFiles.of(self.asked)
        return self._files

    def _answered(self, questions: Sequence[Question]) -> dict[Question, Answer]:
        files = self.files
        kept = (cache.load(files.key, "ask") if not files.tree.computed else None) or {}
        digests = {question: cache.digest([written(question, 0)])[:32] for question in questions}
        missing = [one for one in questions if not isinstance(kept.get(digests[one]), str)]
        if missing:
            kept = kept | {digests[one]: told for one, told in self._compiled(missing).items()}
            if len(kept) <= _MOST_KEPT and not files.tree.computed:
                cache.store(files.key, kept, "ask")
        return {question: _read(question, kept[digests[question]]) for question in questions}

    def _compiled(self, questions: Sequence[Question]) -> dict[Question, str]:
        """Question → the bytes of its answer's variables, hexadecimal, or after "!" the reason why there is none."""
        behind = Behind(dict(enumerate(questions)))
        try:
            contents = variables(self._build(behind).result.ptx)
        except CompileError as error:
            # The compiler may break down without a place: half of the questions, and so on, find the one that it is.
            self._build(Behind({}))
            if len(questions) == 1:
                return {questions[0]: f"!{error.message}"}
            half = len(questions) // 2
            return {**self._compiled(questions[:half]), **self._compiled(questions[half:])}
        found = {}
        for number, question in enumerate(questions):
            parts = [contents.get(variable(number) + part) for part in _variables(question)]
            texts = [one.hex() for one in parts if one is not None]
            reason = behind.refused.get(number, "the compiler gave no answer")
            found[question] = ":".join(texts) if len(texts) == len(parts) else f"!{reason}"
        return found

    def _build(self, behind: Behind) -> Built:
        files = self.files
        known = learned(files.tree, files.options)
        known.asked = build(files.tree, files.options, files.tools, behind=behind, earlier=known.asked)
        return known.asked


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """A source as it is compiled for questions."""

    tree: SourceTree  # its files
    options: CompileOptions  # those of the source, less what makes no difference to an answer
    tools: Toolchain  # the compiler
    key: str  # of its answers in the cache

    @classmethod
    def of(cls, asked: AskedSource) -> SourceFiles:
        """Read the files. Raises ConfigurationError: one cannot be read, or a part of the installation is missing."""
        from wmmadiag.compile.driver import source_key, source_tree

        options = replace(asked.options, debug=False, name_expressions=(), precompiled=None)
        if options.std in _OLDER:
            options = replace(options, std="c++17")
        tools = toolchain()
        check_arch(options.arch, tools)
        tree = source_tree(asked.text, asked.file, options, tools, asked.headers)
        return cls(tree, options, tools, source_key(tree, options, tools, "ask"))


def _variables(question: Question) -> tuple[str, ...]:
    """What the names of an answer's variables end with."""
    if isinstance(question, AddressOf):
        return ("", "_at")
    if not isinstance(question, Member):
        return ("",)
    return ("", "_base") if question.path[-1].base else ("",)


def _read(question: Question, text: str) -> Answer:
    if text.startswith("!"):
        return Unanswered(text[1:])
    contents = [bytes.fromhex(one) for one in text.split(":")]
    if isinstance(question, ValueOf):
        return constant(contents[0])
    if isinstance(question, TypeOf):
        return type_facts(contents[0])
    if isinstance(question, Parameters):
        return kernel_parameters(contents[0])
    if isinstance(question, AddressOf):
        return AddressFacts(int.from_bytes(contents[1], "little", signed=True), type_facts(contents[0]))
    return base_facts(*contents) if question.path[-1].base else member_facts(contents[0])
