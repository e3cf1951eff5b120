"""The instantiations of a kernel template that nobody instantiates: the arguments that its own code admits.

The code asserts, gives its shared arrays their sizes, and divides by numbers: whatever breaks none of that may be what
it is made for. The compiler says of each combination whether it holds (`wmmadiag.compile.ask`); which are right a run
says. Names and usual sizes decide only what comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice, product

from wmmadiag.compile.ask.questions import ValueOf
from wmmadiag.csource.declarations import TemplateParameter
from wmmadiag.csource.nodes import Node, bare, descendants
from wmmadiag.csource.variables import declared
from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.program import HostFunction
from wmmadiag.subject.drafts.code_facts import without_comments
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guess import symbol_for
from wmmadiag.subject.drafts.kernel import SourceKernel, read_kernel, with_types

_TILES, _COUNTS = ("64", "32", "128", "16", "8"), ("4", "2", "3", "8", "1")
_EITHER = ("64", "32", "4", "16", "2", "128", "8", "1")
_TYPES = ("half", "__nv_bfloat16", "float", "double", "signed char", "unsigned char")
_MOST_PARAMETERS = 6
_MOST_ASKED, _MOST_TRIED = 240, 12
_STATIC = 48 * 1024  # bytes of shared memory that a kernel may declare


def instantiations(source: GivenSource, kernel: SourceKernel, operation: str) -> Iterator[tuple[str, SourceKernel]]:
    """The instantiations that may be meant, the likeliest first, with what they assume in words.

    One that the compiler refuses is found out where it is compiled. `operation`: "" where nobody knows it.
    """
    open_ones, found = kernel.uninstantiated, kernel.declared
    if not open_ones or found is None or len(open_ones) > _MOST_PARAMETERS:
        return
    every = [_candidates(one, kernel, operation) for one in open_ones]
    if not all(every) or any(one.pack for one in open_ones):
        return
    names = [one.name for one in open_ones]
    ranked = sorted(product(*(range(len(one)) for one in every)), key=lambda ranks: (sum(ranks), max(ranks)))
    chosen = [{name: one[rank] for name, one, rank in zip(names, every, ranks, strict=True)}
              for ranks in ranked[:_MOST_ASKED]]  # fmt: skip
    for arguments in islice(_admitted(source, found, chosen), _MOST_TRIED):
        entry = f"{found.function.qualified}<{', '.join(_completed(kernel, arguments))}>"
        one = _read_once(source.of(entry), kernel, arguments)
        if one is None:
            continue
        yield ", ".join(f"{name} = {value}" for name, value in arguments.items()), one


def _read_once(source: GivenSource, kernel: SourceKernel, arguments: Mapping[str, str]) -> SourceKernel | None:
    """As `_read`, once for all operations that the kernel is tried as; None where that instantiation cannot be read."""
    known = kernel.host.instantiated if kernel.host is not None else {}
    key = (source.options.entry, repr(source.wishes), *arguments.items())
    for of, found in known.get(key, ()):
        if of.host is kernel.host and of.launch is kernel.launch and of.declared is kernel.declared:
            return found
    try:
        found = _read(source, kernel, arguments)
    except WmmadiagError:
        found = None
    known.setdefault(key, []).append((kernel, found))
    return found


def _read(source: GivenSource, kernel: SourceKernel, arguments: Mapping[str, str]) -> SourceKernel:
    """The kernel with some template arguments; host code that launches it with its own template's is run with them."""
    if kernel.launch is not None and kernel.launch.kernel.arguments and kernel.declared is not None:
        found = read_kernel(source.of(kernel.declared.function.qualified), with_types(source, kernel, arguments))
        if found.launch is not None and not found.uninstantiated:
            return found
    return read_kernel(source, kernel.host)


def _completed(kernel: SourceKernel, arguments: Mapping[str, str]) -> Sequence[str]:
    """All template arguments: those of the launch where it gives some, these in place of what it leaves open."""
    given = kernel.launch.kernel.arguments if kernel.launch is not None else ()
    found = kernel.declared
    if not given or found is None:
        return list(arguments.values())
    template = found.function.template or ()
    own = {one.name for one in template}
    around = {name: text for name, text in arguments.items() if name not in own}
    given = tuple(re.sub(r"\b[A-Za-z_]\w*", lambda word: around.get(word[0], word[0]), text) for text in given)
    return [arguments.get(one.name, value) for one, value in zip(template, given, strict=False)]


def _candidates(parameter: TemplateParameter, kernel: SourceKernel, operation: str) -> Sequence[str]:
    """What an argument may be, the likeliest first; nothing for what is no type and no number."""
    kind, name = parameter.type.replace("const", "").strip(), parameter.name
    if kind == "bool":
        return ("false", "true")
    if kind == "typename" and (members := set(re.findall(rf"\b{re.escape(name)}\s*::\s*(\w+)", kernel.code))):
        return _classes_with(members, kernel)
    if kind == "typename":
        spoken = [one for one in _TYPES if re.search(rf"\b{re.escape(one.removeprefix('__'))}\b", kernel.text)]
        return list(dict.fromkeys([*spoken, *(one for one in _TYPES if one in ("half", "float"))]))
    if not re.fullmatch(r"(?:unsigned|int|long|short|u?int\d*(?:_t)?|size_t|uint|std::size_t|\s)+", kind):
        return ()
    code = without_comments(kernel.code)
    own = re.escape(name)
    divided = rf"\b{own}\s*[/%]\s*\d|<\s*{own}\s*;[^;)]*\+=\s*\d\d?\b"
    counted = rf"%\s*{own}\b|\b{own}\s*-\s*[12]\b|/\s*{own}\b|\b{own}\s*\*\s*(?:32|WARP\w*|warpSize)\b"
    if re.search(divided, code) or (operation and symbol_for(name, operation) is not None):
        return _TILES
    return _COUNTS if re.search(counted, code) else _EITHER


def _classes_with(members: Set[str], kernel: SourceKernel) -> Sequence[str]:
    """The classes of the source that have members of these names, as a parameter must whose members the code names."""
    if kernel.machine is None:
        return ()
    found = []
    for several in kernel.machine.program.classes.values():
        for one in several:
            words = {*re.findall(r"\w+", one.source.text(one.record.node))}
            if members <= words and one.record.template is None and one.record.name:
                found.append(one.record.qualified)
    return found


def _admitted(
    source: GivenSource, found: HostFunction, chosen: Sequence[Mapping[str, str]]
) -> Iterator[Mapping[str, str]]:
    """The combinations of arguments that break nothing that the code demands; first those of which that is known."""
    from wmmadiag.compile.ask.answers import Constant
    from wmmadiag.compile.ask.scope import scope_at

    demands = list(_demands(found))
    whole = " && ".join(f"({one})" for one, _ in demands)
    last = max((node for _, node in demands), key=lambda node: node.start_byte, default=None)
    if last is None:
        yield from chosen
        return
    questions = [ValueOf(whole, scope_at(found.source, last, whole, arguments)) for arguments in chosen]
    answers = source.answers(questions)
    if not answers:
        yield from chosen
        return
    told = [(arguments, answers[one]) for arguments, one in zip(chosen, questions, strict=True)]
    yield from (arguments for arguments, answer in told if isinstance(answer, Constant) and answer.value)
    yield from (arguments for arguments, answer in told if not isinstance(answer, Constant))


def _demands(found: HostFunction) -> Iterator[tuple[str, Node]]:
    """What a kernel's body demands of its template's arguments, as conditions with the places where they stand."""
    body = found.function.body
    if body is None:
        return
    source, held, last = found.source, [], None
    for node in descendants(body, "static_assert_declaration", "declaration"):
        if node.type == "static_assert_declaration":
            condition = node.child_by_field_name("condition")
            if condition is not None:
                yield source.words(bare(condition)), node
            continue
        for one in declared(source, node):
            sizes = [source.words(size) for size in one.dimensions if size is not None]
            if one.shared and "extern" not in one.words and not one.pointers:
                held.append(" * ".join([f"sizeof({one.type})", *(f"({size})" for size in sizes)]))
                last = node
    if last is not None:
        yield f"{' + '.join(held)} <= {_STATIC}", last
