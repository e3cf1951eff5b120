"""What a check tells while it runs, kept for its report."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.results.diagnosis import Diagnosis
from wmmadiag.results.maps import ErrorMap, HeldFragment, OwnedPlane
from wmmadiag.results.model import KernelReport
from wmmadiag.results.run import KernelRun, Rule, Run, SourceText, Unchecked

if TYPE_CHECKING:
    from wmmadiag.launch import LoadedKernel
    from wmmadiag.recording.error_maps import Room
    from wmmadiag.subject.binding import BoundCase
    from wmmadiag.subject.card import Card
    from wmmadiag.subject.verdict import Verdict

MAX_SOURCE = 1 << 18
"""Bytes of a source that a report holds as text."""


@dataclass(slots=True)
class ReportRecorder:
    """Listens to one `wmmadiag.subject.check.check_card`, and makes the kernel's part of a run of it."""

    # seed, inputs: in place of the card's, as the check got them
    seed: int | None = None
    inputs: str = ""
    card: Card | None = None  # being checked, once it has begun
    maps: list[ErrorMap] = field(default_factory=list)
    sources: list[SourceText] = field(default_factory=list)
    _room: Room | None = None

    def begin(self, card: Card) -> None:
        """The check of a card begins: its files are read as they are now."""
        self.card = card
        paths = [card.path, card.source, *(one.source for one in card.variants if one.source is not None)]
        self.sources = [made for path in dict.fromkeys(paths) if (made := source_text(path)) is not None]
        self.maps = []

    def case(self, bound: BoundCase, verdict: Verdict, kernel: LoadedKernel, instructions: int) -> None:
        """A case ran to its end."""
        if verdict.status != "failed":
            return
        from wmmadiag.recording.error_maps import Room, error_maps

        self._room = self._room or Room()
        made = error_maps(bound, verdict, self._room)
        if made:
            found = self._owners(bound, kernel, instructions, tuple(one.output for one in made))
            self.maps += [replace(one, owners=found.get(one.output, ())) for one in made]

    def _owners(
        self, bound: BoundCase, kernel: LoadedKernel, instructions: int, names: tuple[str, ...]
    ) -> Mapping[str, tuple[OwnedPlane, ...]]:
        from wmmadiag.checks.run import emulator_of
        from wmmadiag.recording.owners import MAX_INSTRUCTIONS, owners
        from wmmadiag.subject.binding import bind

        emulated = emulator_of(kernel)
        if emulated is None or not 0 < instructions <= MAX_INSTRUCTIONS:
            return {}
        again = bind(bound.card, bound.case, bound.variant, seed=self.seed, inputs=self.inputs)
        return owners(again, emulated, names)

    def kernel_run(
        self, report: KernelReport, options: Mapping[str, str] | None = None, diagnoses: Sequence[Diagnosis] = ()
    ) -> KernelRun:
        """The finished check with what was recorded of it."""
        fragments: tuple[HeldFragment, ...] = ()
        if diagnoses and self.card is not None:
            from wmmadiag.recording.fragments import fragment_maps

            found = [fragment_maps(self.card, one, seed=self.seed, inputs=self.inputs) for one in diagnoses]
            fragments = tuple(made for maps in found for made in maps)
        sources = tuple(self.sources)
        return KernelRun(report, sources, dict(options or {}), tuple(self.maps), fragments, tuple(diagnoses))


def source_text(path: Path) -> SourceText | None:
    """A file's hash and, unless it is too long, its text; None where there is no such file."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    text = data.decode("utf-8", "replace") if len(data) <= MAX_SOURCE else ""
    return SourceText(str(path), hashlib.sha256(data).hexdigest(), text)


def versions() -> dict[str, str]:
    """Versions of what decides a result, by name."""
    import platform
    from importlib import metadata

    from wmmadiag import __version__
    from wmmadiag.compile.toolchain import nvrtc_version

    found = {"wmmadiag": __version__, "Python": platform.python_version(), "NVRTC": nvrtc_version()}
    for package in ("numpy", "cuda-bindings", "ml-dtypes"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    found["platform"] = f"{platform.system()} {platform.machine()}"
    return {name: version for name, version in found.items() if version}


def rules() -> tuple[Rule, ...]:
    """The checks that there are, for reports that explain them."""
    import sys

    from wmmadiag.checks import all_checks

    found = []
    for check in all_checks().values():
        module = sys.modules.get(f"wmmadiag.checks.{check.name.replace('-', '_')}")
        about = (module.__doc__ or "").split("\nBad:")[0].strip() if module is not None else ""
        found.append(Rule(check.name, check.summary, about))
    return tuple(found)


def run_of(
    kernels: Sequence[KernelRun],
    unchecked: Sequence[Unchecked] = (),
    *,
    command: str = "",
    seconds: float = 0.0,
) -> Run:
    """A run of what was checked, with the time and this machine's versions."""
    started = datetime.now(timezone.utc).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    return Run(tuple(kernels), tuple(unchecked), command, started, seconds, versions(), rules())
