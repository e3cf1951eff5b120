"""What a client and its scheduler hold of tasks that are done."""

from __future__ import annotations

import tracemalloc

import pytest

from wmmadiag.campaign.cluster import answers, cluster

pytestmark = pytest.mark.subprocess
TASKS, BYTES = 300, 60_000


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
