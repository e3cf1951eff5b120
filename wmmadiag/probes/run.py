"""Asking several probes of several architectures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from wmmadiag import backends
from wmmadiag.errors import ConfigurationError
from wmmadiag.numerics.architecture import FAMILIES, architecture
from wmmadiag.probes.answer import Answered
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe, ask

ALL_ARCHES = tuple(f"sm_{number}" for number in FAMILIES if number >= 75)
"""Every architecture whose fragment maps are known."""


def arches_of(text: str, backend: str, probes: Sequence[Probe] = ()) -> tuple[str, ...]:
    """The architectures that "sm_80,sm_90", "all" or "" stand for.

    Args:
        probes: of "", what is asked: a probe that compares architectures, asked alone, is asked of all.

    Raises:
        UnsupportedError: an unknown architecture.
        ConfigurationError: a name twice or none, or the backend has no GPU.
    """
    gpu = backend in ("gpu", "both")
    if not text:
        compares = not gpu and len(probes) == 1 and probes[0].across is not None
        return ALL_ARCHES if compares else (backends.default_arch(backend),)
    if text == "all":
        return ALL_ARCHES
    found = tuple(dict.fromkeys(f"sm_{word.strip().removeprefix('sm_')}" for word in text.split(",") if word.strip()))
    if not found:
        raise ConfigurationError(f"'{text}' names no architecture", hint="such as sm_80,sm_90, or all")
    for arch in found:
        architecture(arch)
    return found


def ask_all(
    probes: Sequence[Probe], arches: Sequence[str], machine: Platform, progress: Callable[[str], None] = lambda _: None
) -> tuple[list[Answered], list[str]]:
    """All answers, probe by probe, each in the order of the architectures; and those that the compiler does not know.

    Args:
        machine: backend and cache; its architecture is replaced.

    Raises:
        ConfigurationError: compiler or backend are missing, or no architecture is known to it.
    """
    unknown: dict[str, ConfigurationError] = {}

    def one(task: tuple[Probe, str]) -> Answered | None:
        probe, arch = task
        if arch in unknown:
            return None
        progress(f"asking {probe.name} of {arch}")
        try:
            return ask(probe, Platform(arch, machine.backend, machine.use_cache))
        except ConfigurationError as error:
            unknown[arch] = error
            return None

    tasks = [(probe, arch) for probe in probes for arch in arches]
    workers = 1 if machine.backend != "emulator" else min(len(tasks), os.cpu_count() or 1)
    with ThreadPoolExecutor(max(1, workers)) as pool:
        answers = [answer for answer in pool.map(one, tasks) if answer is not None]
    left = [arch for arch in arches if arch in unknown]
    if left and (len(left) == len(arches) or len(arches) < len(ALL_ARCHES)):
        raise unknown[left[0]]
    return [answer for answer in answers if answer.arch not in unknown], left
