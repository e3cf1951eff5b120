"""`wmmadiag.run_campaign`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.campaign import run
from wmmadiag.campaign.journal import Journal
from wmmadiag.campaign.known import known_by, nothing_known
from wmmadiag.campaign.plan import plan_of, read_plan
from wmmadiag.campaign.run import Campaign, CampaignProgress
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.campaign.run import Executor

# Where a campaign's tasks run.


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


def run_campaign(
    plan: str | Path | Mapping[str, Any],
    *,
    journal: str | Path = "",
    resume: bool = False,
    scheduler: str = "",
    workers: int = 0,
    here: bool = False,
    baseline: str | Path = "",
    effort: str = "quick",
    tell: Callable[[CampaignProgress], None] = lambda _: None,
) -> Campaign:
    """Try kernels as a plan says; what fails is shrunk and explained.

        found = wmmadiag.run_campaign({"subjects": [{"paths": ["kernel.toml"], "sizes": {"M": "1..300"}}]})
        assert found.exit_code == 0, found.findings

    With Dask a script needs `if __name__ == "__main__":`, since its workers import it.

    Args:
        plan: its file, or what such a file holds, with paths relative to the current folder.
        journal: where results go as they come; beside the plan if nobody says otherwise (`campaign.journal`).
        resume: go on with the journal that is there.
        scheduler: address of a Dask scheduler that runs.
        workers: processes of this machine, 0 for as many as there are processors.
        here: in this process alone, without Dask.
        baseline: file of known failures.
        effort: what is tried to find causes: "quick", "normal", "thorough", or "" for nothing.
        tell: told of progress, often.

    Returns:
        Numbers and findings; `wmmadiag.report.campaign.html.render` and its like make reports of it.

    Raises:
        ConfigurationError: the plan, a card, the journal or the baseline is wrong.
        UndecidedError: the scheduler is gone; `resume` goes on.
    """
    planned = plan_of(plan, Path("campaign.toml")) if isinstance(plan, Mapping) else read_plan(Path(plan))
    path = Path(journal) if journal else run.journal_path(planned.path)
    if not resume and path.exists() and path.stat().st_size:
        raise ConfigurationError(
            f"the journal {path} holds an earlier campaign", hint="go on with it (resume), or give another journal"
        )
    known = known_by(Path(baseline), planned) if baseline else nothing_known
    with Journal(path) as opened, executor(scheduler, workers, here=here, gpu=planned.backend != "emulator") as execute:
        return run.run_campaign(planned, opened, execute, known=known, effort=effort, tell=tell)
