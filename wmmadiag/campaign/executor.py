"""Where a campaign's tasks run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wmmadiag.campaign.run import Executor


@contextlib.contextmanager
def executor(
    scheduler: str = "",
    workers: int = 0,
    *,
    here: bool = False,
    gpu: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Executor]:
    """What runs tasks: processes of this machine, a cluster's workers, or this process.

    Args:
        scheduler: address of a cluster's.
        workers: processes, 0 for as many as there are processors.
        here: in this process alone, without Dask.
        gpu: whether a cluster's worker needs one.
        tell: told where the dashboard is, and what a cluster lacks.

    Raises:
        ConfigurationError: Dask is not installed, or no scheduler answers.
    """
    from wmmadiag.campaign.cluster import answers, cluster, nobody
    from wmmadiag.campaign.run import here as in_this_process

    if here:
        yield in_this_process
        return
    with cluster(scheduler, workers, tell=lambda link: tell(f"dashboard: {link}")) as client:
        resources = {"GPU": 1.0} if gpu and scheduler else None
        if scheduler and (waits := nobody(client, resources)):
            tell(waits.replace("ADDRESS", scheduler))
        yield partial(answers, client, resources=resources)
