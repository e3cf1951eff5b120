"""Tasks on Dask: local processes, or a scheduler that runs already. What distributes and retries them is Dask's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wmmadiag.errors import ConfigurationError, UndecidedError

if TYPE_CHECKING:
    from distributed import Client, Future

TaskWork = TypeVar("TaskWork")
TaskAnswer = TypeVar("TaskAnswer")

IN_FLIGHT = 4
"""Tasks for each thread of the cluster that are out at once: enough that none waits for this process, and few enough
that a million tasks take no memory, and that little is done again after a kill."""
_COUNTED_EVERY = 2.0
"""Seconds after which threads are counted again: a cluster's workers come one by one, some after the campaign began."""
_DEATHS = 2
"""Workers that a task may take with it before it is the one to blame."""
_SETTINGS = {
    "distributed.scheduler.allowed-failures": _DEATHS,
    "distributed.admin.tick.limit": "1h",
    # Dask has its workers give each page back at once. Cases take the same few megabytes one after another, and the
    # kernel's work on those pages was a sixth of each case, in which workers wait for each other's.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
    # Nobody asks for these samples; they cost each process a share of its processor all the time.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "500ms",
    # An interrupt at a terminal reaches every process of ours; each worker would show where it was.
    "distributed.worker.preload": ["import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"],
    # Its last messages, tasks and all, which each end of a connection keeps: a thousand tasks' cases and results.
    "distributed.admin.low-level-log-length": 16,
}


@dataclass(frozen=True, slots=True)
class TaskDone(Generic[TaskWork, TaskAnswer]):
    """A task's answer, or how it failed: `killed` where it took its workers with it."""

    work: TaskWork
    answer: TaskAnswer | None = None
    error: str = ""
    killed: bool = False


@contextlib.contextmanager
def cluster(address: str = "", workers: int = 0, *, tell: Callable[[str], None] = lambda _: None) -> Iterator[Client]:
    """A client of the scheduler at an address, or of one that is made for this, with so many processes.

    Args:
        workers: processes, one thread each; 0: as many as this process may use.
        tell: told where the dashboard is.

    Raises:
        ConfigurationError: Dask is not installed, or nobody answers at the address.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
        from distributed.utils import silence_logging_cmgr
    except ImportError:
        raise ConfigurationError(
            "a campaign needs Dask, which is not installed",
            hint="pip install 'wmmadiag[cluster]'; --here needs none of it",
        ) from None
    count = workers or len(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(_SETTINGS))  # as long as this lasts: the process may be a user's
        if address:
            stack.enter_context(silence_logging_cmgr(logging.CRITICAL))  # of a lost scheduler this module tells
            try:
                client = stack.enter_context(Client(address, timeout="15s", set_as_default=False))
            except (OSError, TimeoutError, ValueError) as error:
                raise ConfigurationError(
                    f"no Dask scheduler answers at {address}: {error}", hint="start one: dask scheduler"
                ) from None
        else:
            made = stack.enter_context(
                LocalCluster(
                    n_workers=count, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
                    silence_logs=50, memory_limit="auto",
                )
            )  # fmt: skip
            client = stack.enter_context(Client(made, set_as_default=False))
        tell(client.dashboard_link)
        yield client


def nobody(client: Client, resources: Mapping[str, float] | None = None) -> str:
    """What keeps a cluster from taking tasks as it is now: no worker, or none that has the resources; "" if nothing."""
    workers = client.scheduler_info()["workers"].values()
    if not workers:
        return "the scheduler has no worker yet: dask worker ADDRESS"
    for name, amount in (resources or {}).items():
        if not any(one.get("resources", {}).get(name, 0) >= amount for one in workers):
            return f"no worker has the resource {name} yet: dask worker ADDRESS --resources '{name}={amount:g}'"
    return ""


def answers(
    client: Client,
    function: Callable[[TaskWork], TaskAnswer],
    works: Iterable[TaskWork],
    *,
    resources: dict[str, float] | None = None,
) -> Iterator[TaskDone[TaskWork, TaskAnswer]]:
    """The answer to each piece of work, as they come; new work is taken only as fast as answers are.

    Args:
        function: called in a worker; importable there.
        resources: that a worker must have, as Dask names them: {"GPU": 1}.
    """
    from distributed import as_completed

    threads = _Threads(client)
    waiting = iter(works)
    running: dict[Future[Any], TaskWork] = {}
    # With results, which come while this process is at others; asked for one by one, each costs two round trips.
    arriving = as_completed(loop=client.loop, with_results=True, raise_errors=False)

    def more() -> None:
        most = IN_FLIGHT * threads.now()
        while len(running) < most:
            work = next(waiting, _NONE)
            if isinstance(work, _None):
                return
            future = client.submit(_called, function, _packed(work), pure=False, resources=resources)
            running[future] = work
            arriving.add(future)

    more()
    while running:
        future, answer = next(arriving)
        work = running.pop(future)
        if future.status == "error":
            yield _failed(work, answer[1])
        elif isinstance(answer, bytes):
            yield TaskDone(work, pickle.loads(answer))
        else:  # cancelled: nobody but a scheduler that is gone does that
            raise _lost(client)
        future.release()
        more()


@dataclass(slots=True)
class _Threads:
    """How many threads a cluster has."""

    client: Client
    counted: float = 0.0  # when, by `time.monotonic`; threads: then, at least 1
    threads: int = 1

    def now(self) -> int:
        """As of a moment ago."""
        if not self.counted or time.monotonic() - self.counted > _COUNTED_EVERY:
            try:
                self.threads = max(1, sum(self.client.nthreads().values()))
            except (OSError, asyncio.TimeoutError):
                raise _lost(self.client) from None
            self.counted = time.monotonic()
        return self.threads


def _lost(client: Client) -> UndecidedError:
    return UndecidedError(
        f"the Dask scheduler at {client.scheduler.addr} is gone",
        hint="what was judged is in the journal: start a scheduler, then go on with --resume",
    )


def _packed(what: object) -> bytes:
    """As one string of bytes, which Dask passes on as it is: objects it takes apart and puts together on their way."""
    return pickle.dumps(what, protocol=pickle.HIGHEST_PROTOCOL)


def _called(function: Callable[[Any], Any], work: bytes) -> bytes:
    """In a worker: its answer to packed work, packed."""
    return _packed(function(pickle.loads(work)))


class _None:
    """No more work."""


_NONE = _None()


def _failed(work: TaskWork, error: BaseException) -> TaskDone[TaskWork, Any]:
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return TaskDone(work, error="it ended each process that ran it", killed=True)
    return TaskDone(work, error=f"{type(error).__name__}: {error}")
