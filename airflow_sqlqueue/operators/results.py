"""Results of a user's function, which XCom has to be able to store before what they tell of is committed."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.operators.base import task_key
from airflow_sqlqueue.untrusted import is_text

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


def check_result(task: BaseOperator, context: Context, result: Any) -> None:
    """Raise :class:`ConfigurationError` for a result of ``python_callable`` that XCom cannot store, and for one that
    shows that nothing ran.

    Airflow stores results after the task has ended, too late to undo anything. A backend of XCom's is asked only about
    a result that Airflow's own XCom refuses, since it may write a file for each question.
    """
    from airflow.providers.common.compat.sdk import XCom
    from airflow.sdk.bases.xcom import BaseXCom

    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        # A coroutine that is not closed warns when it is collected. Others may have nothing to close.
        getattr(result, "close", lambda: None)()
        raise ConfigurationError(
            "python_callable is asynchronous or a generator, so nothing ran: give a plain function."
        )
    if result is None or not task.do_xcom_push:
        return
    names = ("dag_id", "run_id", "task_id", "map_index")
    key: dict[str, Any] = {"key": "return_value", **dict(zip(names, task_key(context), strict=True))}
    for backend in (BaseXCom, XCom):
        try:
            if _is_json(backend.serialize_value(result, **key)):
                return
            reason = "JSON has no such number or text"
        except Exception as error:
            # Its text may quote the result.
            reason = type(error).__name__
    raise ConfigurationError(
        f"XCom cannot store the result of python_callable, of the type {type(result).__name__} ({reason}): return "
        "values of JSON, or None."
    )


def _is_json(value: Any) -> bool:
    """Return whether the API server and every database that Airflow supports can store a serialized value."""
    if isinstance(value, dict):
        return all(map(_is_json, value)) and all(map(_is_json, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_json, value))
    if isinstance(value, str):
        return "\0" not in value and is_text(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and -(2**63) <= value < 2**64)
