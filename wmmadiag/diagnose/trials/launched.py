"""The launches of a case, one after the other where there are several kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wmmadiag.diagnose.trials.compiled import Kernels
from wmmadiag.emulator.kernel import places
from wmmadiag.emulator.trials import StagedLaunch
from wmmadiag.launch import Launch
from wmmadiag.subject.card import Card
from wmmadiag.subject.together import placed


class CaseLaunches:
    """The launches by their kernels' entries, and where arrays lie that are no arguments of theirs.

    Args:
        entry: of the only kernel.
        launch: of the case.
    """

    def __init__(self, card: Card, entry: str, launch: Launch) -> None:
        self._stages: Sequence[tuple[str, Launch, Sequence[tuple[int, int]]]] = [(entry, launch, ())]
        self.addresses: Mapping[int, int] | None = None
        steps = card.derived.kernel.together if card.derived is not None else None
        if steps is not None:
            held = placed(steps, launch, places)
            self._stages, self.addresses = held.stages, held.addresses

    def __len__(self) -> int:
        return len(self._stages)

    def of(self, kernels: Kernels, launch: Launch | None = None) -> list[StagedLaunch]:
        """The launches of a program; `launch`: in place of the only one."""
        return [StagedLaunch(kernels[entry], launch or own, cleared) for entry, own, cleared in self._stages]
