"""Errors that a Spark executor reports to the driver."""

from __future__ import annotations

import pytest

from airflow_sqlqueue.errors import (
    ConfigurationError,
    PermissionDeniedError,
    SqlQueueError,
    StagingError,
    StatementError,
)
from airflow_sqlqueue.spark.errors import error_from_text, error_to_text


@pytest.mark.parametrize(
    "error",
    [
        StagingError("The disk is full."),
        ConfigurationError("Größe: 5 %"),
        PermissionDeniedError("The login may not delete.", "DELETE"),
        StatementError("Could not drain.", 547),
    ],
)
def test_an_error_arrives_with_its_class_and_attributes(error: SqlQueueError) -> None:
    arrived = error_from_text(error_to_text(error))
    assert type(arrived) is type(error)
    assert str(arrived) == f"On a Spark executor: {error}"
    assert vars(arrived) == vars(error)


def test_an_error_of_another_version_is_one_of_ours() -> None:
    class LaterError(SqlQueueError): ...

    arrived = error_from_text(error_to_text(LaterError("New.")))
    assert (type(arrived), str(arrived)) == (SqlQueueError, "On a Spark executor: New.")
