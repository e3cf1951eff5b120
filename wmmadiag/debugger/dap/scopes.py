"""What an editor's list of variables shows: locals, fragments, arrays and registers, opened when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.debugger.local_variables import Local
from wmmadiag.debugger.session import Session
from wmmadiag.debugger.text import number
from wmmadiag.errors import WmmadiagError

Row: TypeAlias = dict[str, Any]
_MOST = 256
"""Children that are shown of one array: editors draw all that they get."""


class EditorScopes:
    """Variables of one stop, by the references that an editor keeps until the next."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._behind: list[Callable[[], list[Row]]] = []

    def scopes(self) -> list[Row]:
        """The headings."""
        makers = {
            "Locals": self._locals,
            "Fragments": self._fragments,
            "Arrays": self._arrays,
            "Registers": self._registers,
        }
        return [
            {"name": name, "variablesReference": self._kept(maker), "expensive": name in ("Fragments", "Registers")}
            for name, maker in makers.items()
        ]

    def children(self, reference: int) -> list[Row]:
        """What stands behind a reference; nothing for one of an earlier stop."""
        return self._behind[reference - 1]() if 0 < reference <= len(self._behind) else []

    def shown(self, name: str, value: Any, kind: str = "") -> Row:
        """A variable: a number, or an array whose rows can be opened."""
        array = np.asarray(value)
        if array.ndim == 0:
            return {"name": name, "value": number(array[()]), "type": kind, "variablesReference": 0}
        text = f"{'×'.join(map(str, array.shape))} {kind or array.dtype.name}"
        return {
            "name": name,
            "value": text,
            "type": kind,
            "variablesReference": self._kept(lambda: self._rows(array, kind)),
        }

    # Inside

    def _kept(self, maker: Callable[[], list[Row]]) -> int:
        self._behind.append(maker)
        return len(self._behind)

    def _rows(self, array: NDArray[Any], kind: str) -> list[Row]:
        rows = [self.shown(f"[{i}]", array[i], kind) for i in range(min(len(array), _MOST))]
        if len(array) > _MOST:
            rows.append(
                {"name": "…", "value": f"{len(array) - _MOST} more: x ELEMENT shows them", "variablesReference": 0}
            )
        return rows

    def _each(self, names: Any, show: Callable[[str], Row]) -> list[Row]:
        rows = []
        for name in names:
            try:
                rows.append(show(name))
            except WmmadiagError as why:  # not assigned yet, not kept: said in its place
                rows.append({"name": name, "value": f"({why.message})", "variablesReference": 0})
        return rows

    def _locals(self) -> list[Row]:
        session = self.session
        names = [*(a.spec.name for a in session.case.arguments if a.scalar is not None), *session.locals]
        places = ("threadIdx.x", "blockIdx.x", "warp", "lane")
        return self._each(dict.fromkeys([*places, *names]), self._local)

    def _local(self, name: str) -> Row:
        value = self.session.variable(name)
        if not isinstance(value, Local):
            return self.shown(name, value)
        return self.shown(name, value.values[self.session.lane], value.type)

    def _fragments(self) -> list[Row]:
        return self._each(self.session.fragment_names, self._fragment)

    def _fragment(self, name: str) -> Row:
        view = self.session.fragment(name)
        return self.shown(name, view.values.astype(np.float64), view.type)

    def _arrays(self) -> list[Row]:
        return self._each(self.session.arrays.parts, lambda name: self.shown(name, self.session.values(name)))

    def _registers(self) -> list[Row]:
        found = self.session.registers("line")
        return [self.shown(name, one.values, one.type) for name, one in found.items() if not one.unwritten]
