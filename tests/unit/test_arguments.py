"""Arguments of a handler's function."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options.arguments import arguments_for

OFFERED = {"context": 1, "queue": 2, "message": 3}


def any_names(message: object, **everything: Any) -> None:
    """Takes what there is."""


def some_names(message: object, queue: object, rate: float = 1.0) -> None:
    """Takes two of them."""


def test_a_function_gets_the_offered_values_that_it_has_parameters_for() -> None:
    assert arguments_for(some_names, OFFERED, {"rate": 2.0}) == {"queue": 2, "rate": 2.0}
    assert arguments_for(any_names, OFFERED, {"rate": 2.0}) == {"context": 1, "queue": 2, "rate": 2.0}


def test_a_function_whose_parameters_have_no_names_gets_no_offered_values() -> None:
    assert arguments_for(max, OFFERED, {"key": len}) == {"key": len}


def test_an_argument_that_the_function_does_not_take_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be called with a message and its arguments: .*'speed'"):
        arguments_for(some_names, OFFERED, {"speed": 1})
    with pytest.raises(ConfigurationError, match=r"cannot be called with .*'message'"):
        arguments_for(some_names, OFFERED, {"message": 1})


@pytest.mark.parametrize("given", ["{'rate': 1}", ["rate"], {1: 2}])
def test_arguments_without_names_are_refused(given: Any) -> None:
    """A template renders a mapping to text."""
    with pytest.raises(ConfigurationError, match="give a mapping of arguments, by their names"):
        arguments_for(any_names, OFFERED, given)
