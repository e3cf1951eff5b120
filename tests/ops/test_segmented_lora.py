"""Updates of rows with adapters of their own against their formula, written out, and what the bound tells apart."""

from __future__ import annotations

import numpy as np

import wmmadiag

STARTS, IDS = np.array([0, 3, 3, 7], np.int32), np.array([2, 0, 1], np.int32)


def tensors(seed, dtype=np.float32, depth=8):
    rng = np.random.default_rng(seed)
    shapes = {"x": (7, depth), "down": (3, 2, 4, depth), "up": (3, 2, 5, 4), "c": (7, 5)}
    found = {role: rng.standard_normal(shape).astype(dtype) for role, shape in shapes.items()}
    return {**found, "starts": STARTS, "ids": IDS, "scales": np.array([0.5, 2.0, 3.0], np.float32)}


def written_out(data, layer, ids=IDS):
    want = data["c"].astype(float)
    for one, adapter in enumerate(ids):
        for i in range(STARTS[one], STARTS[one + 1]):
            if adapter >= 0:
                narrow = data["down"][adapter, layer].astype(float) @ data["x"][i].astype(float)
                want[i] += data["scales"][adapter] * (data["up"][adapter, layer].astype(float) @ narrow)
    return want


def test_it_is_its_definition():
    data = tensors(0)
    got = wmmadiag.reference("segmented_lora", **data, beta=1.0, layer=1).value
    np.testing.assert_allclose(got, written_out(data, 1), rtol=1e-6, atol=1e-6)


def test_rows_of_no_adapter_stay_as_they_are():
    data = tensors(1)
    data["ids"] = np.array([2, 0, -1], np.int32)
    got = wmmadiag.reference("segmented_lora", **data, beta=1.0)
    np.testing.assert_array_equal(got.value[3:], data["c"][3:].astype(float))
    assert not got.bound[3:].any() and got.bound[:3].all()


def test_another_layer_and_another_adapter_are_outside_the_bound():
    data = tensors(2, np.float16, 64)
    want = wmmadiag.reference("segmented_lora", **data, beta=1.0, layer=1, dtype="f32")
    assert wmmadiag.compare_arrays(written_out(data, 1).astype(np.float32), want).passed
    for wrong in (written_out(data, 0), written_out(data, 1, ids=(1, 0, 2))):
        assert not wmmadiag.compare_arrays(wrong.astype(np.float32), want).passed
