"""Which of several launches of a kernel says most, and which instantiations host code has of it."""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.hostcode.events import HostLaunch
from wmmadiag.hostcode.host import HostRun
from wmmadiag.hostcode.program import HostFunction
from wmmadiag.hostcode.terms import SymbolValues, Term, symbols, value
from wmmadiag.hostcode.types import is_open, plain
from wmmadiag.hostcode.values import Value

_PLAIN_SIZES = (1024, 256, 64, 96)


def likeliest_launch(own: Sequence[tuple[HostLaunch, HostRun]]) -> tuple[HostLaunch | None, HostRun | None]:
    """The launch that says most: with sizes, with every array that the kernel can take; the first of equals."""

    def unknown(pair: tuple[HostLaunch, HostRun]) -> tuple[int, int, bool, bool]:
        launch = pair[0]
        values = [launch.shared, *launch.arguments]
        values += [cell.value for shape in (launch.grid, launch.block) for cell in shape.members.values()]
        missing = sum(1 for one in values if type(one).__name__ == "Unknown")
        nulls = sum(map(is_null, launch.arguments))
        missing += is_open(launch.kernel.arguments)
        return missing, nulls, launch.root != "main", not _may_be_made(launch, pair[1].machine.usual)

    return min(own, key=unknown, default=(None, None))


def launched_in_one_way(own: Sequence[tuple[HostLaunch, HostRun]], function: HostFunction) -> tuple[str, ...]:
    """The instantiations that one way through the host code launches, () for one: a switch takes one of several."""
    ways: dict[object, dict[tuple[str, ...], str]] = {}
    for launch, run in own:
        arguments = tuple(plain(text) for text in launch.kernel.arguments)
        if arguments and not is_open(arguments) and "{" not in "".join(arguments):
            name = name_expression("", function, launch.kernel.arguments, given=False)
            ways.setdefault((id(run), launch.root, launch.facts), {})[arguments] = name
    most = max(ways.values(), key=len, default={})
    return tuple(most.values()) if len(most) > 1 else ()


def other_instantiations(
    own: Sequence[tuple[HostLaunch, HostRun]], function: HostFunction, taken: str
) -> tuple[str, ...]:
    """The instantiations that host code launches besides the one that is taken."""
    given = [one.kernel.arguments for one, _ in own if not is_open(one.kernel.arguments)]
    names = dict.fromkeys(name_expression("", function, one, given=False) for one in given)
    return tuple(one for one in names if one not in ("", taken))


def _may_be_made(launch: HostLaunch, usual: SymbolValues) -> bool:
    """Whether the conditions before a launch hold for some plain sizes: `if (gcd(8, d) == 16)` holds for none."""

    def holds(size: int) -> bool:
        given = [(value(one, dict.fromkeys(symbols(one), size) | dict(usual)), true) for one, true in launch.facts]
        return all(found is None or bool(found) == true for found, true in given)

    return any(map(holds, _PLAIN_SIZES))


def is_null(passed: Value) -> bool:
    """Whether host code passes null, or 0."""
    return isinstance(passed, Term) and passed.op == "number" and passed.args[0] == 0


def name_expression(entry: str, function: HostFunction, arguments: Sequence[str], given: bool) -> str:
    """An instantiation as the compiler is asked for it; what is no template by its name."""
    template = function.function.template
    if given or not template or not (arguments or all(one.default or one.pack for one in template)):
        return entry
    return f"{function.function.qualified}<{', '.join(arguments)}>"
