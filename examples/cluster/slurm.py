"""Dask workers as Slurm jobs: `python slurm.py JOBS`. Needs `pip install dask-jobqueue`; ends them with Ctrl-C."""

import contextlib
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
jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)  # a job that ends is followed by another
print(f"wmmadiag campaign PLAN.toml --scheduler {cluster.scheduler_address}", flush=True)
with contextlib.suppress(KeyboardInterrupt):
    signal.pause()
cluster.close()
