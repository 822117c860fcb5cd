"""Stages by their names."""

from __future__ import annotations

from typing import Any

from airflow_sqlqueue.drain.manifest import STAGES
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import ConfigurationError


def check_stage(stage: str, staging: Any | None) -> None:
    """Raise :class:`ConfigurationError` for an unknown stage, and for a folder that is missing or unused."""
    if stage not in STAGES:
        raise ConfigurationError(f"There is no stage {stage!r}: choose one of {', '.join(STAGES)}.")
    if stage == "files" and staging is None:
        raise ConfigurationError("A drain into files needs a staging folder: name one, or set the stage to table.")
    if stage == "table" and staging is not None:
        raise ConfigurationError("A drain into a table writes no files: leave out the staging folder.")


def stage_of(stage: str, staging: StagingFolder | None) -> Stage:
    """Make the stage ``files`` in a staging folder, or ``table``. Raises as :func:`check_stage` does."""
    check_stage(stage, staging)
    return TableStage() if staging is None else FileStage(staging)
