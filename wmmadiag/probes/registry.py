"""The platform probes, found by walking this package.

To add a probe, write `probes/NAME.cu` with the kernels, and one module here that defines `PROBE = Probe(…)`. The
module's docstring says why one would ask; `docs/probes.md` is made of it by `python scripts/pages`.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from wmmadiag import probes
from wmmadiag.errors import ConfigurationError, KernelFault, WmmadiagError, did_you_mean
from wmmadiag.probes.answer import Answered, ProbeAnswer
from wmmadiag.probes.machine import Platform


@dataclass(frozen=True, slots=True)
class Probe:
    """One question to the platform."""

    name: str  # as users write it, "fragment-map"; the module has underscores for the hyphens
    asks: str  # the question, one line
    source: str  # its kernels, a file of `probes/`
    run: Callable[[Platform], ProbeAnswer]  # asks it
    # makes one text of the answers of several architectures, or None
    across: Callable[[Sequence[Answered]], str] | None = None


def probe_modules() -> Mapping[str, tuple[Probe, ModuleType]]:
    """(probe, module) by name of each module beside this one that defines a `PROBE`.

    Raises:
        TypeError: a module and its probe have different names.
    """
    found: dict[str, tuple[Probe, ModuleType]] = {}
    for info in sorted(pkgutil.iter_modules(probes.__path__), key=lambda one: one.name):
        module = importlib.import_module(f"{probes.__name__}.{info.name}")
        probe = getattr(module, "PROBE", None)
        if isinstance(probe, Probe):
            if probe.name != info.name.replace("_", "-"):
                raise TypeError(f"{module.__file__}: the probe is called '{probe.name}'")
            found[probe.name] = probe, module
    return found


@cache
def all_probes() -> Mapping[str, Probe]:
    """Every platform probe by name, in the order of their names."""
    return {name: probe for name, (probe, _) in probe_modules().items()}


def select(names: Iterable[str]) -> tuple[Probe, ...]:
    """The probes of these names; all for none.

    Raises:
        ConfigurationError: there is no probe of some name.
    """
    known = all_probes()
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise ConfigurationError(f"there is no probe '{name}'", hint=did_you_mean(name, known))
    return tuple(known[name] for name in wanted) if wanted else tuple(known.values())


def ask(probe: Probe, machine: Platform) -> Answered:
    """Ask one probe; what cannot be asked here is an undecided answer that says why.

    Raises:
        ConfigurationError: compiler or backend are missing.
    """
    started = time.perf_counter()
    try:
        answer = probe.run(machine)
    except ConfigurationError:
        raise
    except WmmadiagError as error:
        lines = [f"cannot be asked of {machine.arch} on this backend: {error.message}"]
        lines += [f"next: {error.hint}"] if error.hint else []
        verdict = "wrong" if isinstance(error, KernelFault) else "undecided"
        answer = ProbeAnswer(verdict, tuple(lines))  # type: ignore[arg-type]
    return Answered(probe.name, machine.arch, machine.backend, time.perf_counter() - started, answer)
