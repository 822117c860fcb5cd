"""The full names of .NET types in ``NServiceBus.EnclosedMessageTypes``.

Spark's form of the rule is ``airflow_sqlqueue.spark.headers.first_type``.

Source: docs/transport/messages.md, "Header names".
"""

from __future__ import annotations

SPACE = " \t\n\r\v\f"
"""What may stand around a name and does not belong to it."""


MAX_GENERIC = 65_536
"""Characters of a generic type within which its name is looked for: a header of megabytes must stay cheap to read."""


def full_name(assembly_qualified: str) -> str:
    """``Shop.Order`` of ``Shop.Order, Shop``: what stands before the first comma that no bracket holds.

    The commas between a generic type's brackets are part of its name. Empty where there is no name.
    """
    if "[" not in assembly_qualified:
        return assembly_qualified.partition(",")[0].strip(SPACE)
    depth, text = 0, assembly_qualified.lstrip(SPACE)[:MAX_GENERIC]
    for index, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            return text[:index].rstrip(SPACE)
    return text.rstrip(SPACE)


def first_type(enclosed: str | None) -> str | None:
    """The full name of the most derived type; None where there is none."""
    return next(filter(None, map(full_name, (enclosed or "").split(";"))), None)
