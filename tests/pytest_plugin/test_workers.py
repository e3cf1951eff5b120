"""One GPU per worker, and host threads shared out."""

from __future__ import annotations

import os

import pytest

from wmmadiag.testing.workers import choose_gpu, threads_per_worker, visible_gpus


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.delenv("WMMADIAG_GPU", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, GPU-7,6")


@pytest.mark.parametrize(("worker", "gpu"), [("gw0", "4"), ("gw1", "GPU-7"), ("gw2", "6"), ("gw3", "4")])
def test_each_worker_has_its_own(worker, gpu):
    choose_gpu(worker)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == gpu


@pytest.mark.parametrize(("variable", "value"), [("WMMADIAG_GPU", "1"), ("CUDA_VISIBLE_DEVICES", "3")])
def test_a_choice_is_respected(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    before = os.environ["CUDA_VISIBLE_DEVICES"]
    choose_gpu("gw1")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == before


def test_gpus_are_counted_without_cuda(monkeypatch, tmp_path):
    assert visible_gpus() == ["4", "GPU-7", "6"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert visible_gpus(tmp_path) == ["2", "10"]


def test_host_threads(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for workers, threads in (("1", 0), ("3", 2), ("16", 1)):
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", workers)
        assert threads_per_worker() == threads
