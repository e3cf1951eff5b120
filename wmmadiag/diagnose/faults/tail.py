"""Keys that count too often or not at all: tails, dropped tiles, overwritten tiles, padding in the row sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model


def with_keys(times: Callable[[Rows], Doubles], target: str) -> Prediction:
    """Keys counted `times` (rows or 1, keys) in the output ("o"), the sum ("l") or both ("b")."""

    def predict(rows: Rows) -> Doubles:
        factors = times(rows)
        return rows.weighted(factors if target in "ob" else None, factors if target in "lb" else None)

    return predict


def _range(start: int, stop: int, inside: float, outside: float) -> Callable[[Rows], Doubles]:
    def times(rows: Rows) -> Doubles:
        factors = np.full((1, rows.keys), outside)
        factors[:, start:stop] = inside
        return factors

    return times


def _keys(problem: Problem) -> int:
    return int(problem.arrays["k"].shape[2] if problem.operation == "attention" else problem.arrays["x"].shape[-1])


_TARGETS = {"b": "", "o": ", which the row sum still counts", "l": " in the row sum alone"}


@fault_model("attention", "softmax", rank=25)
def padding_counted(problem: Problem) -> Iterator[Candidate]:
    """Keys past the end: score 0, V = 0, counted in the row sum."""
    keys = _keys(problem)
    paddings = {-keys % tile: tile for tile in reversed((*problem.tiles(keys), 16, 32, 64, 128, 256)) if keys % tile}
    for padding, tile in paddings.items():
        parameters = {"tile": tile, "keys": padding}
        yield Candidate(
            "tail-masking",
            "padding-in-sum",
            f"{padding} keys past the end (up to a multiple of {tile}) are counted in the row sum with score 0",
            _padded(padding),
            parameters,
        )
        yield Candidate(
            "stale-tile",
            "last-key-repeated",
            f"the last key is counted {padding} more times, in place of the keys "
            f"past the end (up to a multiple of {tile})",
            with_keys(_range(keys - 1, keys, 1.0 + padding, 1.0), "b"),
            parameters,
        )
        for stages in (1, 2, 3):
            first, stop = keys - tile * stages, keys + padding - tile * stages
            if first < 0 or stop > keys:
                continue
            for target, said in (("b", ""), ("l", " (in the row sum alone)"), ("o", " (in the output alone)")):
                yield Candidate(
                    "stale-tile",
                    "old-tile-in-tail",
                    f"keys past the end hold those of {stages} tile(s) of {tile} before: keys {first} to {stop - 1} "
                    f"count twice{said}",
                    with_keys(_range(first, stop, 2.0, 1.0), target),
                    {**parameters, "stages": stages},
                )


def _padded(padding: int) -> Prediction:
    def predict(rows: Rows) -> Doubles:
        # The padding's zeros take part in the maximum, which cancels.
        return np.asarray(rows.combine(rows.exponentials) / (rows.sums + padding * np.exp(-rows.largest)))

    return predict


@fault_model("attention", "softmax", rank=25)
def tail_dropped(problem: Problem) -> Iterator[Candidate]:
    """The keys after the last whole tile are not used."""
    keys = _keys(problem)
    for tile in problem.tiles(keys):
        whole = keys // tile * tile
        if whole < keys and keys - whole < keys / 2:
            for target in "bo":
                yield _drop("tail-dropped", "loop-extent", whole, keys, target, tile)


@fault_model("attention", "softmax", rank=27)
def keys_dropped(problem: Problem) -> Iterator[Candidate]:
    """One tile of keys missing or counted twice."""
    keys = _keys(problem)
    done: set[tuple[int, int]] = set()
    for tile in problem.tiles(keys):
        count = -(-keys // tile)
        numbers = range(count) if count <= 16 else (0, 1, count - 2, count - 1)
        for number in numbers:
            start, stop = number * tile, min(number * tile + tile, keys)
            if (start, stop) in done:
                continue
            done.add((start, stop))
            for target in "bol":
                yield _drop("tile-dropped", "loop-extent", start, stop, target, tile)
            yield Candidate(
                "loop-extent",
                "tile-twice",
                f"keys {start} to {stop - 1} count twice",
                with_keys(_range(start, stop, 2.0, 1.0), "b"),
                {"tile": tile, "first": start},
            )
    for start, stop in ((0, 1), (keys - 1, keys)):
        yield _drop("tile-dropped", "loop-extent", start, stop, "b", 1)


def _drop(model: str, hypothesis: str, start: int, stop: int, target: str, tile: int) -> Candidate:
    which = f"key {start} is" if stop == start + 1 else f"keys {start} to {stop - 1} are"
    said = {
        "b": f"{which} not used",
        "o": f"{which} not added to the output, but counted in the row sum",
        "l": f"{which} not counted in the row sum",
    }[target]
    suffix = {"b": "", "o": "-of-output", "l": "-of-sum"}[target]
    return Candidate(
        hypothesis,
        model + suffix,
        said,
        with_keys(_range(start, stop, 0.0, 1.0), target),
        {"tile": tile, "first": start, "last": stop - 1},
    )


@fault_model("attention", "softmax", rank=26)
def tile_overwritten(problem: Problem) -> Iterator[Candidate]:
    """Only one tile of keys survives in the output, the sum, or both."""
    keys = _keys(problem)
    for tile in problem.tiles(keys):
        last = (keys - 1) // tile * tile
        yield _survivor(
            "last-tile-survives",
            "tile-overwritten",
            f"only the last tile (keys {last} to {keys - 1}) is left",
            tile,
            _range(last, keys, 1.0, 0.0),
        )
        yield _survivor(
            "last-tile-survives",
            "tile-overwritten",
            f"only the last tile (keys {last} to {keys - 1}) is left",
            tile,
            _range(last, keys, 1.0, 0.0),
            "o",
        )
        yield _survivor(
            "first-tile-survives",
            "loop-extent",
            f"only the first tile (keys 0 to {tile - 1}) is used",
            tile,
            _range(0, tile, 1.0, 0.0),
        )
        yield _survivor(
            "first-tile-survives",
            "loop-extent",
            f"only the first tile (keys 0 to {tile - 1}) is used",
            tile,
            _range(0, tile, 1.0, 0.0),
            "o",
        )
        for model, start, stop in (("last-tile-in-sum", last, keys), ("first-tile-in-sum", 0, tile)):
            # Of a whole row the first threads have summed what they hold; tiles come and go.
            whole = problem.operation == "softmax" and not start
            yield Candidate(
                "reduction" if whole else "normalisation",
                model,
                f"the row sum holds keys {start} to {stop - 1} alone",
                with_keys(_range(start, stop, 1.0, 0.0), "l"),
                {"tile": tile},
            )
        if problem.parameters.get("causal"):
            for rows_tile in dict.fromkeys((1, tile, 16, 32, 64, 128)):
                for target in "ob":
                    yield _survivor(
                        "last-visible-tile-survives",
                        "tile-overwritten",
                        f"only the last tile of {tile} keys that the mask leaves a tile of {rows_tile} rows is left",
                        tile,
                        _last_visible(tile, rows_tile),
                        target,
                    )


def _survivor(
    model: str, hypothesis: str, words: str, tile: int, times: Callable[[Rows], Doubles], target: str = "b"
) -> Candidate:
    model += "" if target == "b" else "-of-output"
    said = words + (" in the output and the row sum" if target == "b" else " in the output; the row sum is whole")
    return Candidate(hypothesis, model, said, with_keys(times, target), {"tile": tile})


def _last_visible(tile: int, rows_tile: int) -> Callable[[Rows], Doubles]:
    def times(rows: Rows) -> Doubles:
        end = np.minimum((rows.index // rows_tile + 1) * rows_tile - 1 + rows.corner, rows.keys - 1)
        key = np.arange(rows.keys)[None, :] // tile
        return np.asarray(key == (end // tile)[:, None], np.float64)

    return times
