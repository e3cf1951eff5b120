"""Rows whose softmax is known: all elements equal (1/N each), one element far above the others (1 and 0), and the
case's own rows plus a constant, which changes nothing.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe


def run(subject: Subject) -> Conclusion:
    """Three inputs."""
    x = subject.inputs["x"]
    columns = x.shape[-1]
    scale = abs(float(subject.parameters["scale"])) or 1.0
    peaks = np.zeros(x.shape)
    place = (np.arange(x.size // columns) * 7 % columns).reshape(*x.shape[:-1], 1)
    np.put_along_axis(peaks, place, np.sign(float(subject.parameters["scale"]) or 1.0) * 40.0 / scale, axis=-1)
    given = {
        "equal elements": np.zeros(x.shape),
        "one dominant element": peaks,
        "a constant added": x.astype(np.float64) + 4.0,
    }
    judged = {name: subject.judged({"x": subject.values("x", values)}) for name, values in given.items()}
    bad = [name for name, one in judged.items() if not one.right]
    if not bad:
        decided = all(one.verdict == "right" for one in judged.values())
        return Conclusion(
            "right" if decided else "undecided",
            "softmax of equal elements, of one dominant one, and with a constant added: all right",
        )
    supports = ("value", "condition") if "equal elements" in bad else ("value",)
    return Conclusion(
        "wrong",
        f"softmax is wrong with {', '.join(bad)}",
        supports,
        tuple(f"{name}: {judged[name].where()}" for name in bad),
    )


PROBE = SubjectProbe("softmax-rows", "rows whose softmax is known: are they right?", ("softmax",), run)
