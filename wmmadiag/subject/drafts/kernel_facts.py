"""What a source says about one kernel: its name, parameters, and launches in host code."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.drafts.carriers import adds_to, carried
from wmmadiag.subject.drafts.composite import taken_apart
from wmmadiag.subject.drafts.dispatch import dispatched
from wmmadiag.subject.drafts.guess import Parameter
from wmmadiag.subject.drafts.host_scope import Launched, replaced
from wmmadiag.subject.drafts.source_facts import template_values
from wmmadiag.subject.drafts.which_kernel import chosen_kernel, chosen_remark

if TYPE_CHECKING:
    from wmmadiag.compile import Compilation, Entry, HostLaunch, KernelSignature
    from wmmadiag.subject.open_subject import SubjectOptions


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What a source says about one kernel: its name, parameters, and launches in host code, best first.

    `text` is the source with the user's own headers, which hold constants and templates too. `remarks`: what was
    chosen where the source has several, each one clause. `bounds`: arguments of its `__launch_bounds__`.
    """

    entry: str
    parameters: tuple[Parameter, ...]
    launches: tuple[Launched, ...]
    text: str = ""
    remarks: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()


def source_facts(path: Path, options: SubjectOptions) -> SourceFacts:
    """Read a kernel's signature and launches.

    Raises:
        ConfigurationError: there is no kernel, no such kernel, or several and none is named.
    """
    from wmmadiag.compile.sources import read_text

    text = read_text(path)
    if not text.strip():
        raise ConfigurationError(f"{path}: the file is empty", hint="give CUDA source with a __global__ function")
    return _cuda_facts(path, text, options)


def _cuda_facts(path: Path, text: str, options: SubjectOptions) -> SourceFacts:
    from wmmadiag.compile import CompileOptions, compile_text, find_launches, kernel_signatures, signature
    from wmmadiag.compile.kernel_code import kernel_code, multiplies
    from wmmadiag.compile.signatures import type_aliases
    from wmmadiag.compile.sources import read_tree

    file = path.as_posix()
    tree = read_tree(text, file, options.include_paths, lambda _: False)
    launches = [launch for one in tree.files() for launch in find_launches(one.text, one.name)]
    names = list(dict.fromkeys(one.name for one in kernel_signatures(text, file)))
    whole = "\n".join(one.text for one in tree.files())
    entry, remarks = options.entry, tuple[str, ...]()
    if not entry:
        launched = [name for name in names if any(_base(one.kernel) == _base(name) for one in launches)]
        multiplying = [name for name in names if len(names) > 1 and multiplies(kernel_code(whole, name))]
        entry = chosen_kernel(path, names, launched, multiplying)
        remarks = tuple(filter(None, [chosen_remark(entry, names, multiplying)]))
    own = [one for one in launches if _base(one.kernel) == _base(entry)]
    if not own:  # `launch(kernel)`, where a function or lambda launches what it is given
        own = [one for one in launches if _base(one.kernel) not in map(_base, names)]
    own.sort(key=lambda one: (one.grid is None or one.block is None, not one.arguments))
    own = [_dispatched(one, whole) for one in own]
    wanted = entry
    if "<" not in entry and own and own[0].template_arguments:
        wanted = f"{entry}<{', '.join(one.text for one in own[0].template_arguments)}>"
    try:
        found = signature(text, wanted, file=file)
    except ConfigurationError:
        # It may stand in a header that only the include paths lead to: the compiler knows.
        compiled = compile_text(
            text,
            file,
            CompileOptions(
                macros={name: value or None for name, value in options.macros.items()},
                include_paths=options.include_paths,
                std=options.std or "c++17",
                name_expressions=(entry,) if "<" in entry else (),
            ),
        )
        kernel = compiled.entry(entry or None)
        found, entry = signature_of(compiled, kernel), entry or kernel.demangled
    parameters = tuple(
        Parameter(
            one.name or f"arg{index}",
            _plain_type(one.type),
            one.pointer,
            one.const,
            _card_type(one.dtype),
        )
        for index, one in enumerate(found.parameters)
    )
    values, aliases, code = template_values(whole, wanted), type_aliases(tree), kernel_code(whole, found.name)
    passed = [one.text for one in own[0].arguments] if own else []
    passed += [""] * (len(parameters) - len(passed))
    lanes = [one.lanes for one in found.parameters]
    parameters = tuple(
        replace(one, c_type=replaced(one.c_type, values), unread=_is_unread(one, code))
        if not one.pointer
        else carried(one, code, text, whole, aliases)
        if count > 1 and one.dtype not in ("f16", "bf16")
        else one
        for one, text, count in zip(parameters, passed, lanes, strict=False)
    )
    parameters, taken = taken_apart(parameters, own, whole, aliases, _element)
    parameters = tuple(
        replace(one, added=adds_to(code, one.label.rpartition(".")[2] or one.name))
        if one.pointer and not one.const and one.label != "data"
        else one
        for one in parameters
    )
    return SourceFacts(entry or found.name, parameters, taken, whole, remarks, found.launch_bounds)


def _is_unread(parameter: Parameter, code: str) -> bool:
    """Whether a kernel's code is known and does not mention a number."""
    return bool(code) and parameter.dtype is not None and not re.search(rf"\b{re.escape(parameter.name)}\b", code)


def _dispatched(launch: HostLaunch, text: str) -> HostLaunch:
    """A launch with the types that a dispatch macro would choose in the place of their names."""
    words = [one.text for one in launch.template_arguments if re.fullmatch(r"[A-Za-z_]\w*", one.text)]
    own = [name for name, _ in launch.aliases]
    types = dispatched(text, [word for word in words if own.count(word) != 1])
    if not types:
        return launch
    filled = tuple(replace(one, text=types.get(one.text, one.text)) for one in launch.template_arguments)
    return replace(launch, template_arguments=filled)


def _element(type_: str) -> tuple[str, str | None]:
    """A C type without qualifiers, and its name in cards."""
    from wmmadiag.compile.lexer import tokenize
    from wmmadiag.compile.signatures import parameter_of

    return _plain_type(type_), _card_type(parameter_of(tokenize(f"{type_} x"), {}).dtype)


def signature_of(compilation: Compilation, entry: Entry) -> KernelSignature:
    """The signature of a compiled kernel, also of one in a header that only an include path leads to.

    Raises:
        ConfigurationError: its declaration is nowhere to be read (a macro made it).
    """
    from wmmadiag.compile import signature
    from wmmadiag.compile.sources import read_text

    try:
        return signature(compilation, entry)
    except ConfigurationError:
        if entry.place is None or entry.place.file == compilation.source:
            raise
        return signature(read_text(Path(entry.place.file)), entry, file=entry.place.file)


def _base(name: str) -> str:
    return name.split("<")[0].split("::")[-1].strip()


def _card_type(dtype: str | None) -> str | None:
    """A card's name for a signature's element type (cards write s32 where signatures say i32)."""
    return None if dtype is None else re.sub(r"\Ai(\d+)\Z", r"s\1", dtype)


def _plain_type(text: str) -> str:
    words = re.sub(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b|\*", " ", text).split()
    return " ".join(words)
