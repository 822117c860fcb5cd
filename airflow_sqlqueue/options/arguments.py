"""Arguments of users' functions, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError


def check_op_kwargs(op_kwargs: Any) -> None:
    """Raise :class:`ConfigurationError` for what is no mapping of names, as a mapping that a template renders to text.

    None is no argument.
    """
    if not isinstance(op_kwargs, (Mapping, type(None))) or not all(isinstance(name, str) for name in op_kwargs or ()):
        raise ConfigurationError(
            f"op_kwargs is a value of the type {type(op_kwargs).__name__}: give a mapping of arguments, by their names."
        )


def arguments_for(
    function: Callable[..., Any], offered: Mapping[str, Any], op_kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all of ``op_kwargs``, and the ``offered`` values that the function has parameters for, except its first
    one.

    Raises :class:`ConfigurationError` if the function cannot be called, or not with these arguments.
    """
    check_op_kwargs(op_kwargs)
    if not callable(function):
        raise ConfigurationError("python_callable cannot be called: give a function of a message.")
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a function in C, such as print in Python 3.10, whose parameters have no names
        return dict(op_kwargs)
    parameters = list(signature.parameters.values())
    first = {parameter.name for parameter in parameters[:1]}
    given = {**{name: value for name, value in offered.items() if name not in first}, **op_kwargs}
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        asked = {parameter.name for parameter in parameters} | op_kwargs.keys()
        given = {name: value for name, value in given.items() if name in asked}
    try:
        signature.bind(None, **given)
    except TypeError as error:
        raise ConfigurationError(f"The function cannot be called with a message and its arguments: {error}.") from error
    return given
