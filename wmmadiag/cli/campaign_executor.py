"""Where a campaign's tasks run, as its options say."""

from __future__ import annotations

import argparse
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from wmmadiag.cli.console import Console

if TYPE_CHECKING:
    from wmmadiag.campaign.run import Executor


def executor(args: argparse.Namespace, gpu: bool, console: Console) -> Any:
    """A context whose value runs tasks.

    Args:
        gpu: whether a worker of a scheduler needs one.
    """

    from wmmadiag.campaign.cluster import answers, cluster, nobody
    from wmmadiag.campaign.run import here

    if args.here:
        return contextlib.nullcontext(here)

    @contextlib.contextmanager
    def opened() -> Any:
        def tell(link: str) -> None:
            console.note(f"dashboard: {link}")

        with cluster(args.scheduler, args.workers, tell=tell) as client:
            resources = {"GPU": 1.0} if gpu and args.scheduler else None
            if args.scheduler and (waits := nobody(client, resources)):
                console.note(waits.replace("ADDRESS", args.scheduler))
            execute: Executor = partial(answers, client, resources=resources)
            yield execute

    return opened()
