"""``tidelog trial --through``: which job, and the verdict on the table that it filled."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.options import one_of
from tidelog.errors import Refusal, unknown
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.jobs import JOBS
from tidelog.pipeline.reconcile.checkpoint import read_checkpoint
from tidelog.pipeline.spark.packages import DELTA, with_packages
from tidelog.trials.job import JobFault, JobPlan

if TYPE_CHECKING:
    from tidelog.pipeline.reconcile.result import Continuity
    from tidelog.trials.trial import LoadTrial

TOPIC = "trial"


def job_plan(name: str, faults: str) -> JobPlan:
    named = [] if faults == "none" else [each.strip() for each in faults.split(",")]
    wanted = tuple(JobFault(one_of("fault of a job", each, tuple(JobFault))) for each in named)
    return JobPlan(name, _command(name), _progress, wanted)


def _command(name: str) -> tuple[str, ...]:
    if name in JOBS:
        return (sys.executable, "-m", "tidelog.pipeline.jobs", name)
    script = Path(name)
    if script.suffix != ".py":
        raise unknown("job", name, tuple(JOBS))
    if not script.is_file():
        raise Refusal(f"--through {name}: there is no such file")
    return (sys.executable, str(script.absolute()))


def _progress(checkpoint: Path) -> Mapping[int, int]:
    try:
        return read_checkpoint(str(checkpoint), TOPIC).ends
    except PipelineError:  # there is no committed batch yet, or the job keeps no checkpoint
        return {}


def table_settings(job: JobPlan | None) -> dict[str, str]:
    """Of a Spark that can read the table of the job: a script of a user may write Delta as well."""
    needs_delta = job is not None and (job.name == "delta" or DELTA.variable in os.environ)
    return with_packages(DELTA) if needs_delta else {}


def _format(table: Path) -> str:
    return "delta" if (table / "_delta_log").is_dir() else "parquet"


def compare_table(trial: LoadTrial) -> Continuity:
    """The topic as its brokers left it against the table of the job. Raises `PipelineError`."""
    from tidelog.pipeline.reconcile.run import Request, open_table, prove
    from tidelog.pipeline.reconcile.table_side import Columns
    from tidelog.pipeline.spark.session import open_session

    job = trial.job
    if job is None:
        raise PipelineError("the trial ended before its job was started")
    folder, spark = trial.folder, open_session(app="tidelog audit", quick=True)
    table = open_table(spark, str(job.table), _format(job.table))
    request = Request(
        TOPIC,
        logs=[str(folder.path / broker["data_dir"]) for broker in folder.manifest.brokers],
        columns=Columns(value="value" if "value" in table.columns else None),
        checkpoint=str(job.checkpoint) if _progress(job.checkpoint) else None,
    )
    return prove(spark, table, request)
