"""Decorator ``@task.sqlqueue_consume``: the function handles the messages of a queue."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory

from airflow_sqlqueue.operators.consume import CLIENT, HOOK, SqlQueueConsumeOperator

if TYPE_CHECKING:
    from airflow.sdk.bases.decorator import TaskDecorator


class _ConsumeDecoratedOperator(DecoratedOperator, SqlQueueConsumeOperator):
    """Operator of the decorator; the function's own arguments, all by name, are its ``op_kwargs``."""

    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *SqlQueueConsumeOperator.template_fields)
    custom_operator_name = "@task.sqlqueue_consume"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if op_args:
            raise TypeError("Give the handler's arguments by name: the first one is the message, which the task gives.")
        signature = inspect.signature(python_callable)
        # Airflow checks in the DAG file that every argument is given; message, hook and client come with each message.
        parameters = [
            parameter.replace(default=None)
            if (number == 0 or parameter.name in (HOOK, CLIENT)) and parameter.kind is not parameter.VAR_KEYWORD
            else parameter
            for number, parameter in enumerate(signature.parameters.values())
        ]
        seen_default = False
        for number, parameter in enumerate(parameters):
            seen_default = seen_default or parameter.default is not parameter.empty
            if seen_default and parameter.kind is parameter.POSITIONAL_OR_KEYWORD and number:
                parameters[number] = parameter.replace(kind=parameter.KEYWORD_ONLY)
        python_callable.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        super().__init__(
            python_callable=python_callable,
            op_kwargs=op_kwargs,
            kwargs_to_upstream={"python_callable": python_callable, "op_kwargs": op_kwargs},
            **kwargs,
        )


def sqlqueue_consume_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Make a task of a function that handles messages: :class:`.SqlQueueConsumeOperator`, whose arguments it takes.

    ``@task.sqlqueue_consume(queue_name="orders")`` before ``def handle(message, hook): ...``. Call the function in the
    DAG file with its further arguments, all by name.

    :param python_callable: the function.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=False,
        decorated_operator_class=_ConsumeDecoratedOperator,
        **kwargs,
    )
