"""What local variables of the source hold: their last copies, where the source was compiled so that it keeps them.

The compiler keeps no record of which register holds a variable, and none of what it folds away: `kept.py` makes copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from wmmadiag.compile.ask.answers import TypeFacts
from wmmadiag.compile.ask.asking import ask
from wmmadiag.compile.ask.questions import AskedSource, TypeOf
from wmmadiag.compile.ask.scope import scope_at
from wmmadiag.debugger.kept_values import copied
from wmmadiag.errors import CompileError, ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.debugger import declared
    from wmmadiag.debugger.inspect import Inspection


class NotKeptError(ConfigurationError):
    """A local variable is asked for, of a source that was not compiled so that it keeps them."""


class UncopiedError(ConfigurationError):
    """Something else may write a local variable: no copy tells its value."""


@dataclass(frozen=True, slots=True)
class Local:
    """A local variable of the selected warp."""

    # name, type: as declared
    name: str
    type: str
    # line, code: after which the selected lane has this value
    line: int
    code: str
    values: NDArray[Any]  # of the 32 lanes
    lanes: int = 0xFFFFFFFF  # mask of those that have one


def local_variable(session: Inspection, name: str) -> Local:
    """What a local variable holds.

    Raises:
        NotKeptError: the session's source is compiled as it is.
        UncopiedError: something else may write it.
        ConfigurationError: there is no such variable, or the warp has not assigned it yet.
    """
    local = _declared(session, name)
    if not session.target.kept:
        raise NotKeptError(
            f"'{name}' is a local variable: as the source is compiled, nothing tells where it is",
            hint="`keep` compiles it so that its variables keep their values, and comes back here; "
            "in Python: wmmadiag.debugger.kept(session)",
        )
    marked = session.target.kept.get((local.file.name, local.variable.declarator.start_byte))
    if marked is None:
        raise UncopiedError(
            f"'{name}' may be written where the source does not name it: no copy of it is kept",
            hint=f"print +{name}: the compiler reads it before the statement that the warp stands at",
        )
    copy = copied(session, marked, _type(session, local))
    if copy is None:
        raise _not_assigned(session, local)
    place = session.lines.places[copy.pc]
    type_ = local.variable.type + " *" * local.variable.pointers
    return Local(name, type_, place.line, session.lines.source_line(place).strip(), copy.values, copy.lanes)


def _type(session: Inspection, local: declared.DeclaredLocal) -> TypeFacts | None:
    """What the compiler says of a variable's type; None where it cannot."""
    variable, source = local.variable, local.file.source
    bindings = local.file.bindings(local.function.node, local.instance)
    if "auto" in variable.type.split() and variable.value is not None:
        text = source.words(variable.value)
        question = TypeOf(text, scope_at(source, variable.value, text, bindings, every=True), expression=True)
    else:
        text = variable.type + "*" * variable.pointers
        question = TypeOf(text, scope_at(source, variable.node, text, bindings))
    compilation = session.target.compilation
    try:
        found = ask(AskedSource(compilation.text, compilation.source, compilation.options), [question])[question]
    except (CompileError, ConfigurationError):  # no NVRTC here: bits, then
        return None
    return found if isinstance(found, TypeFacts) else None


def _not_assigned(session: Inspection, local: declared.DeclaredLocal) -> ConfigurationError:
    variable = local.variable
    looped = variable.node.parent is not None and variable.node.parent.type == "for_statement"
    first = local.file.source.words(variable.value) if looped and variable.value is not None else ""
    away = f"go on to line {local.file.line(variable)}" + (f"; it begins as {first}" if first else "")
    return ConfigurationError(
        f"warp {session.warp} has run no instruction that assigns '{variable.name}' in this block", hint=away
    )


def _declared(session: Inspection, name: str) -> declared.DeclaredLocal:
    """The declaration that a name means where the thread stands, in its function or a caller; else the only one."""
    standing = session.standing()
    for frame in () if standing is None else session.target.kernel.kernel.place(standing.pc).frames():
        here = session.declared.local_at(name, frame)
        if here is not None:
            return here
    everywhere = [one for one in session.declared.locals if one.variable.name == name and not one.variable.dimensions]
    if len(everywhere) == 1:
        return everywhere[0]
    if everywhere:
        lines = ", ".join(str(one.file.line(one.variable)) for one in everywhere)
        raise ConfigurationError(
            f"several variables are called '{name}', and none of them is visible here",
            hint=f"they are declared at lines {lines}: go there",
        )
    raise ConfigurationError(f"there is no variable '{name}'", hint="`info variables` lists those that are alive here")
