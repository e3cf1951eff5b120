"""What a check tells while it runs, kept for its report."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wmmadiag import __version__
from wmmadiag.checks import all_checks
from wmmadiag.checks.run import emulator_of
from wmmadiag.compare.observation import TILE
from wmmadiag.compile.toolchain import nvrtc_version
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.output_words import Words, Writers
from wmmadiag.errors import WmmadiagError
from wmmadiag.recording.error_maps import Room, error_maps
from wmmadiag.recording.fragments import fragment_maps
from wmmadiag.results.diagnosis import Diagnosis
from wmmadiag.results.maps import ErrorMap, HeldFragment, OwnedPlane, TileOwner
from wmmadiag.results.model import KernelReport
from wmmadiag.results.run import KernelRun, Rule, Run, SourceText, Unchecked
from wmmadiag.subject.binding import BoundArgument, BoundCase, bind

if TYPE_CHECKING:
    from wmmadiag.launch import LoadedKernel
    from wmmadiag.subject.card import Card
    from wmmadiag.subject.verdict import Verdict

# Which block and which warps wrote each tile of an output: the failing case once more, watched.


MAX_INSTRUCTIONS = 200_000_000
"""Warp instructions of a run that is repeated for this: about ten seconds."""


def owners(bound: BoundCase, kernel: EmulatedKernel, names: Sequence[str]) -> dict[str, tuple[OwnedPlane, ...]]:
    """Owners of the tiles of the named output arguments, by name.

    Args:
        bound: the case with fresh arrays, which this run fills.
        kernel: what ran; its options are kept but for the checks.
        names: of the arguments.

    Returns:
        Empty when the run fails this time (out of budget).
    """
    options = replace(kernel.options, checks=("outputs",), check_table=(), threads=1, observer=None)
    watched = EmulatedKernel(kernel.kernel, options)
    try:
        watched.launch(bound.launch)
    except WmmadiagError:
        return {}
    grid, words = bound.launch.grid, watched.output_words
    return {
        one.spec.name: _planes(one, words[one.index], grid)
        for one in bound.arguments
        if one.spec.name in names and one.index in words
    }


def _planes(argument: BoundArgument, words: Words, grid: tuple[int, int, int]) -> tuple[OwnedPlane, ...]:
    planes = []
    for placement in argument.placements.values():
        logical = np.asarray(placement.view(words))
        matrices = logical if logical.ndim >= 2 else logical.reshape(1, -1)
        planes += [OwnedPlane(tuple(index), _tiles(matrices[index], grid)) for index in np.ndindex(matrices.shape[:-2])]
    return tuple(planes)


def _tiles(plane: Words, grid: tuple[int, int, int]) -> tuple[tuple[TileOwner | None, ...], ...]:
    rows, columns = plane.shape
    return tuple(
        tuple(_owner(plane[top : top + TILE, left : left + TILE], grid) for left in range(0, columns, TILE))
        for top in range(0, rows, TILE)
    )


def _owner(tile: Words, grid: tuple[int, int, int]) -> TileOwner | None:
    writers = Writers(tile[Writers(tile).written])
    if not writers.words.size:
        return None
    blocks, counts = np.unique(writers.blocks, return_counts=True)
    most = int(np.argmax(counts))  # the first of those that wrote the most
    main = int(blocks[most])
    warps: NDArray[np.uint64] = np.unique(writers.warps[writers.blocks == blocks[most]])
    x, y, _ = grid
    return TileOwner((main % x, main // x % y, main // (x * y)), tuple(map(int, warps)), len(blocks), int(counts.sum()))


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

        self._room = self._room or Room()
        made = error_maps(bound, verdict, self._room)
        if made:
            found = self._owners(bound, kernel, instructions, tuple(one.output for one in made))
            self.maps += [replace(one, owners=found.get(one.output, ())) for one in made]

    def _owners(
        self, bound: BoundCase, kernel: LoadedKernel, instructions: int, names: tuple[str, ...]
    ) -> Mapping[str, tuple[OwnedPlane, ...]]:
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

    found = []
    for check in all_checks().values():
        module = sys.modules.get(f"wmmadiag.checks.{check.name.replace('-', '_')}")
        about = (module.__doc__ or "").split("\nBad:")[0].strip() if module is not None else ""
        found.append(Rule(check.name, check.summary, about))
    return tuple(found)


def run_of(
    kernels: Sequence[KernelRun], unchecked: Sequence[Unchecked] = (), *, command: str = "", seconds: float = 0.0
) -> Run:
    """A run of what was checked, with the time and this machine's versions."""
    started = datetime.now(timezone.utc).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    return Run(tuple(kernels), tuple(unchecked), command, started, seconds, versions(), rules())
