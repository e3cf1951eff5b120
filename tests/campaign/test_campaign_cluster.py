"""What a client and its scheduler hold of tasks that are done, and how much work a cluster gets."""

from __future__ import annotations

import time
import tracemalloc

import dask
import pytest
from distributed import Client, LocalCluster

from wmmadiag.campaign import cluster as clusters
from wmmadiag.campaign.cluster import IN_FLIGHT, answers, cluster, nobody

pytestmark = pytest.mark.subprocess
TASKS, BYTES = 300, 60_000


@pytest.mark.slow
def test_what_is_done_is_not_kept():
    with cluster(workers=1) as client:
        tracemalloc.start()
        try:
            assert (
                sum(done.answer for done in answers(client, len, (bytes(BYTES) for _ in range(TASKS)))) == TASKS * BYTES
            )
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held < TASKS * BYTES / 2
    assert not dask.config.get("distributed.worker.preload")  # a user's other clusters are as they were


def workers(count, **options):
    return LocalCluster(
        n_workers=count, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50, **options
    )


def test_work_grows_as_workers_come(monkeypatch):
    """Those of a queue, for example, come long after the campaign has begun."""
    monkeypatch.setattr(clusters, "_COUNTED_EVERY", 0.0)
    taken = 0

    def works():
        nonlocal taken
        for _ in range(200):
            taken += 1
            yield 0.01

    with workers(1) as made, Client(made) as client:
        running = answers(client, time.sleep, works())
        next(running)
        assert taken == IN_FLIGHT
        made.scale(4)
        client.wait_for_workers(4, timeout=30)
        next(running)
        next(running)
        assert taken == 2 + 4 * IN_FLIGHT
        assert sum(1 for _ in running) == 200 - 3


def test_what_a_cluster_lacks_is_told():
    with workers(0) as made, Client(made) as client:
        assert "no worker yet" in nobody(client)
    with workers(1) as made, Client(made) as client:
        assert nobody(client) == ""
        assert "no worker has the resource GPU yet: dask worker" in nobody(client, {"GPU": 1.0})
    with workers(1, resources={"GPU": 1}) as made, Client(made) as client:
        assert nobody(client, {"GPU": 1.0}) == ""
        assert [done.answer for done in answers(client, abs, [-2], resources={"GPU": 1.0})] == [2]
