"""Dask workers as Slurm jobs: `python slurm.py JOBS`. Needs `pip install dask-jobqueue`; ends them with Ctrl-C."""

import signal
import sys

from dask_jobqueue import SLURMCluster

cluster = SLURMCluster(
    cores=16,
    processes=16,
    memory="32GB",
    walltime="08:00:00",
    job_extra_directives=["--exclusive"],
    job_script_prologue=["export WMMADIAG_CACHE_DIR=/shared/wmmadiag-cache"],
)
cluster.scale(jobs=int(sys.argv[1]) if len(sys.argv) > 1 else 4)
print(f"wmmadiag campaign PLAN.toml --scheduler {cluster.scheduler_address}", flush=True)
signal.pause()
