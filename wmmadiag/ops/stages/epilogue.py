"""Stages of a product that something follows: scales, C, a bias, an activation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from wmmadiag.ops.parts.epilogue import FUNCTIONS, SPREAD, finished
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.stages.model import ExpectedOutput, StageCase
from wmmadiag.ops.stages.products import ProductStages, StageValues


class EpilogueStages(ProductStages):
    """Products of a GEMM, and its outputs with the activation and before it."""

    def __init__(self, case: StageCase) -> None:
        super().__init__(case)
        parts = [one for one in ("c", *SPREAD) if one in case.inputs and (one != "c" or case.parameters["beta"])]
        self._activation = str(case.parameters.get("activation", "none"))
        self._finishes = bool(parts) or self._activation != "none"
        scales = "".join(f"·{role}" for role in parts if role.startswith("scale"))
        added = ("beta·C" if role == "c" else role for role in parts if f"·{role}" not in scales)
        self._sum_words = " + ".join((f"alpha·A·B{scales}", *added))
        self._whole: dict[tuple[ExpectedOutput, str], StageValues] = {}

    def wholes(self) -> Mapping[str, Callable[[ExpectedOutput], StageValues]]:
        """The output and, a bias being what the accumulators may begin with, what the activation is applied to."""
        if not self._finishes:
            return {}
        return {
            self._sum_words if name == "none" else f"{name}({self._sum_words})": partial(self._kept, name)
            for name in dict.fromkeys(("none", self._activation))
        }

    def _kept(self, activation: str, output: ExpectedOutput) -> StageValues:
        if (output, activation) not in self._whole:
            self._whole[output, activation] = self._finished(output, activation)
        return self._whole[output, activation]

    def _finished(self, output: ExpectedOutput, name: str) -> StageValues:
        product = self.product(output.product)
        inputs = self.case.inputs

        def own(role: str) -> Doubles:
            """What of an input meets this matrix, (rows or 1, columns or 1)."""
            array = inputs[role].astype(np.float64)
            array = array.reshape((1,) * (2 - array.ndim) + array.shape)
            outer = array.shape[:-2]
            lead = output.lead[max(0, len(output.lead) - len(outer)) :]
            picked: Doubles = array[(0,) * (len(outer) - len(lead))][
                tuple(min(at, extent - 1) for at, extent in zip(lead, outer[len(outer) - len(lead) :], strict=True))
            ]
            return picked

        further = {role: own(role) for role in ("c", *SPREAD) if role in inputs}
        beta = float(self.case.parameters["beta"])
        values = finished(self.scale * product.values, further, beta=beta, activation=name)
        scales = {role: array for role, array in further.items() if role in ("scale_a", "scale_b")}
        errors = np.abs(finished(np.abs(self.scale) * product.errors, scales))
        sizes = finished(self.scale * product.values, further, beta=beta)
        errors = FUNCTIONS[name].slope * errors + (np.abs(sizes) + np.abs(values)) * (32 * self.model.unit)
        return StageValues(values, errors)
