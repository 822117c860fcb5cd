"""What an operator or a sensor takes, its own parameters and those that it hands on to a base."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

from airflow_sqlqueue import operators, sensors

PUBLIC = {*operators.__all__, *sensors.__all__}


def parameters_of(cls: Any) -> dict[str, Parameter]:
    """The parameters by name. A base of this package that is not public takes what its class does not name."""
    found: dict[str, Parameter] = {}
    for base in cls.__mro__:
        is_ours = base.__module__.startswith("airflow_sqlqueue.") and "__init__" in vars(base)
        if is_ours and (base is cls or base.__name__ not in PUBLIC):
            found |= signature(base.__init__).parameters
    return found
