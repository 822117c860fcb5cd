"""The end of a task after each class of our errors, for every operator and sensor."""

from __future__ import annotations

import json
from datetime import timedelta
from inspect import Parameter, getmembers, isclass
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG
from inherited_parameters import whole_signature

from airflow_sqlqueue import errors, operators, sensors
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.hooks.retry_policy import TransientRetryPolicy
from airflow_sqlqueue.operators import SqlQueueSendOperator
from airflow_sqlqueue.versions.airflow import RETRY_POLICIES
from tests.airflow.versions import needs

FAIL, RETRY, DEFAULT = "fail", "retry", "default"
"""Values of Airflow's ``RetryAction``."""

EXPECTED = {
    errors.SqlQueueError: DEFAULT,
    errors.AddressError: FAIL,
    errors.ConfigurationError: FAIL,
    errors.DriverNotFoundError: FAIL,
    errors.UnsupportedServerError: FAIL,
    errors.MessageError: FAIL,
    errors.MessageNotFoundError: DEFAULT,  # others may hold it
    errors.UntrustedServerError: FAIL,
    errors.ServerUnreachableError: RETRY,
    errors.UnknownHostError: RETRY,  # a slip in the name, or a container that is away
    errors.LoginFailedError: RETRY,
    errors.PermissionDeniedError: FAIL,
    errors.QueueNotFoundError: FAIL,
    errors.NotAQueueError: FAIL,
    errors.QueueNotEmptyError: DEFAULT,  # it may be emptied
    errors.TransientError: RETRY,
    errors.DeadlockError: RETRY,
    errors.LockTimeoutError: RETRY,
    errors.LayoutChangedError: RETRY,
    errors.ServerBusyError: RETRY,
    errors.DataMovedError: RETRY,
    errors.ConnectionLostError: RETRY,
    errors.TransactionError: DEFAULT,  # of the task's own code, whatever it met before
    errors.TransactionLostError: RETRY,
    errors.ConditionNotMetError: DEFAULT,
    errors.NoReplyError: DEFAULT,
    errors.NoHandlerError: DEFAULT,  # a message's failure, not a task's
    errors.BatchError: DEFAULT,  # whoever works on the batch may finish it
    errors.BatchNotFoundError: FAIL,
    errors.WrongBatchError: FAIL,
    errors.StrandedBatchError: FAIL,
    errors.BatchMismatchError: FAIL,
    errors.TooManyRescuedError: FAIL,
    errors.CopyError: FAIL,
    errors.StagingError: DEFAULT,  # a disk that is full, a store that is away
    errors.BodyError: FAIL,
    errors.PayloadError: FAIL,
    errors.PayloadGoneError: FAIL,
    errors.PayloadTooLargeError: FAIL,
    errors.PayloadKeyError: FAIL,
    errors.DataBusUnreachableError: RETRY,  # a store that is away, or a share that is mounted again
    errors.PayloadUnreadableError: RETRY,  # a permission that is granted, or a file that is restored
    errors.SparkJobError: DEFAULT,
    errors.TooManyFailuresError: DEFAULT,
    errors.StatementError: DEFAULT,
    errors.RowRefusedError: DEFAULT,
}


def test_no_class_of_the_tree_is_forgotten() -> None:
    tree = {cls for _, cls in getmembers(errors, isclass) if issubclass(cls, errors.SqlQueueError)}
    assert tree == EXPECTED.keys()


@needs(RETRY_POLICIES)
@pytest.mark.parametrize("cls", EXPECTED, ids=lambda cls: cls.__name__)
def test_each_error_retries_or_fails_the_task(cls: type[errors.SqlQueueError]) -> None:
    expected = EXPECTED[cls]
    decision = TransientRetryPolicy().evaluate(cls("secret sentence"), 1, 3)
    assert decision.action.value == expected
    assert "secret" not in (decision.reason or "")
    assert (decision.retry_delay is not None) == (expected == RETRY)


@pytest.mark.parametrize("cls", EXPECTED, ids=lambda cls: cls.__name__)
def test_without_the_policy_what_no_retry_fixes_ends_the_task(cls: type[errors.SqlQueueError]) -> None:
    raised = AirflowFailException if EXPECTED[cls] == FAIL else cls
    with pytest.raises(raised, match="secret sentence"), fail_without_retry():
        raise cls("secret sentence")


@needs(RETRY_POLICIES)
def test_pauses_grow_at_random_up_to_the_longest() -> None:
    policy = TransientRetryPolicy(first=10, longest=60)

    def pause(number: int) -> timedelta:
        found = policy.evaluate(errors.DeadlockError(), number, 9).retry_delay
        assert found is not None
        return found

    for number, longest in ((1, 10), (2, 20), (3, 40), (4, 60), (1000, 60)):
        pauses = {pause(number) for _ in range(50)}
        assert len(pauses) > 1
        assert timedelta(seconds=longest / 2) <= min(pauses) <= max(pauses) <= timedelta(seconds=longest)


@needs(RETRY_POLICIES)
def test_errors_of_your_own_code_are_left_to_airflow() -> None:
    assert TransientRetryPolicy().evaluate(ValueError("x"), 1, 3).action.value == DEFAULT


@needs(RETRY_POLICIES)
@pytest.mark.parametrize(("first", "longest"), [(0, 1), (-1, 5), (10, 5)])
def test_invalid_pauses_are_refused(first: float, longest: float) -> None:
    with pytest.raises(errors.ConfigurationError, match="numbers of seconds above 0"):
        TransientRetryPolicy(first, longest)


@needs(RETRY_POLICIES)
def test_a_dag_gives_it_to_all_its_tasks_and_it_survives_being_stored() -> None:
    policy = TransientRetryPolicy(first=1, longest=2)
    with DAG("retried", schedule=None, default_args={"retry_policy": policy, "retries": 3}):
        task = SqlQueueSendOperator(task_id="t", queue_name="q", messages=[])
    assert task.retry_policy is policy
    again = TransientRetryPolicy.deserialize(json.loads(json.dumps(policy.serialize())))
    assert (again.first, again.longest) == (1, 2)


ARGUMENTS: dict[str, Any] = {
    "action": "return",
    "queue_name": "q",
    "to_queue": "other",
    "reply_queue": "replies",
    "endpoint": "Sales",
    "message_types": ["Shop.T"],
    "message_type": "Shop.T",
    "messages": [{}],
    "message": {},
    "python_callable": print,
    "staging": "/staging",
    "queues": ["q"],
    "batch": {
        "batch_id": "6d1c2b37-51d5-4a3b-9a1e-2f6a3a0f5c11",
        "queue": "q@[dbo]@[shop]",
        "state": "sealed",
        "stage": "table",
        "messages": 0,
        "parts": 0,
    },
}
CLASSES = [getattr(module, name) for module in (operators, sensors) for name in module.__all__]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("missing", [False, True])
def test_every_operator_and_sensor_fails_at_once_where_no_retry_helps(
    cls: Any, connection: Any, context: Any, missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here for a connection that names no database, or is not there."""
    connection(schema="", login="someone", password="Pa55-word")
    if missing:
        monkeypatch.delenv("AIRFLOW_CONN_SQLQUEUE_DEFAULT")
    parameters = whole_signature(cls).parameters
    own = {"action"} if cls is operators.SqlQueueReturnToSourceOperator else set()
    required = {name for name, given in parameters.items() if given.default is Parameter.empty and name in ARGUMENTS}
    wanted = (
        (required - own)
        | ({"queue_name"} & parameters.keys())
        | ({"to_queue"} if "to_endpoint" in parameters else set())
    )
    with DAG("fails", schedule=None):
        task = cls(task_id="t", **{name: ARGUMENTS[name] for name in wanted})
    with pytest.raises(AirflowFailException) as failed:
        task.execute(context())
    assert isinstance(failed.value.__cause__, errors.SqlQueueError)
