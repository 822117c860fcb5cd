"""Connection form of Airflow 3.1, which asks the hook's class for it; later versions read ``provider_info``."""

from __future__ import annotations

from typing import Any

from airflow_sqlqueue import provider_info


def widgets() -> dict[str, Any]:
    """Return the fields of the extra as WTForms fields, by their names.

    Airflow's API server replaces these classes of WTForms by stand-ins, which have a label, validators and a
    description alone.
    """
    import wtforms

    classes = {
        "boolean": wtforms.BooleanField,
        "integer": wtforms.IntegerField,
        "number": wtforms.IntegerField,
        "string": wtforms.StringField,
    }
    form = {}
    for name, field in _connection_type()["conn-fields"].items():
        kind, _ = field["schema"]["type"]
        allowed = field["schema"].get("enum")
        validators = [wtforms.validators.any_of(allowed)] if allowed else []
        form[name] = classes[kind](field["label"], validators=validators, description=field["description"])
    return form


def field_behaviour() -> dict[str, Any]:
    """Return the labels, placeholders and hidden ones of Airflow's own fields."""
    return {name.replace("-", "_"): value for name, value in _connection_type()["ui-field-behaviour"].items()}


def _connection_type() -> dict[str, Any]:
    (found,) = provider_info.get_provider_info()["connection-types"]
    return dict(found)
