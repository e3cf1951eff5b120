"""Results counted many at once are what they are counted one by one."""

from __future__ import annotations

import pickle

from wmmadiag.campaign.points import Point
from wmmadiag.campaign.tally import MOST_VALUES, Tally
from wmmadiag.campaign.work import PointResult


def results():
    for number in range(90):
        sizes = {"M": number % 3, "N": number % 2} if number % 5 else {"L": number % 4}
        point = Point(f"{len(sizes)}.toml", "sm_80", "default", "one", sizes, seed=number)
        failures = ("wrong-output o",) if number % 7 == 0 else ()
        yield PointResult(str(number), point, "failed" if failures else "passed", failures, instructions=number + 1)


def known(result):
    return result.point.seed % 14 == 0


def test_together_as_one_by_one():
    together, single = Tally(), Tally()
    together.add(results(), known)
    for one in results():
        single.add([one], known)
    assert together.statuses == single.statuses == {"passed": 77, "failed": 6, "accepted": 7}
    assert together.axes() == single.axes()
    assert together.axes()["seed"] == [
        "0",
        "1",
        "2–3",
        "4–7",
        "8–15",
        "16–31",
        "32–63",
        "64–127",
    ]  # too many one by one
    assert (together.groups, together.listed, together.subjects) == (single.groups, single.listed, single.subjects)
    of_sizes = {cell: count for cell, count in together.cells.items() if cell[0] == "M" and cell[2] == "N"}
    assert of_sizes and of_sizes == {cell: single.cells[cell] for cell in of_sizes}
    assert of_sizes["M", "0", "N", "1"] == sum(n % 3 == 0 and n % 2 == 1 and n % 5 > 0 for n in range(90))
    assert together.failing["M", "0", "N", "1"] == sum(n % 21 == 0 and n % 2 == 1 and n % 5 > 0 for n in range(90))
    assert MOST_VALUES < 90


def test_results_travel_as_they_are():
    for one in results():
        assert pickle.loads(pickle.dumps(one)) == one
    sizes = {"M": 3, "scale": 0.5, "K": "M * 2"}
    point = Point("a", "sm_90", "v", "b", sizes, "normal", 1 << 40, 2, 16)
    assert pickle.loads(pickle.dumps(point)) == point
