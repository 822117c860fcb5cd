"""What a function of the user's is called with, by the names that it asks for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError


def arguments_for(
    function: Callable[..., Any], offered: Mapping[str, Any], op_kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by name: all of ``op_kwargs``, and of what is offered what the function asks for.

    Its first parameter is for the caller, whatever its name. Raises :class:`ConfigurationError` for a function that
    cannot be called so, before anything depends on it.
    """
    given: dict[str, Any] = {**offered, **op_kwargs}
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    for parameter in parameters[:1]:
        given.pop(parameter.name, None)
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        asked = {parameter.name for parameter in parameters} | op_kwargs.keys()
        given = {name: value for name, value in given.items() if name in asked}
    try:
        signature.bind(None, **given)
    except TypeError as error:
        raise ConfigurationError(f"The function cannot be called with a message and its arguments: {error}.") from error
    return given
