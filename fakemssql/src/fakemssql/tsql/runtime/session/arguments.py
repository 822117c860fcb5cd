"""The arguments of system procedures, and names of procedures as drivers send them."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.parser import batches, nodes
from fakemssql.tsql.parser.lexer import tokenize


class Arguments:
    """The arguments of a call, by name or position as the procedure's parameter list tells."""

    def __init__(self, name: str, parameters: list[Parameter]) -> None:
        self.name, self.parameters = name, parameters

    def take(self, *names: str) -> list[Any]:
        """The values of the parameters ``names`` in order; None for what is missing. Error 8145 for unknown ones."""
        values: dict[str, Any] = dict.fromkeys(names)
        for position, parameter in enumerate(self.parameters):
            key = parameter.name.lower().lstrip("@")
            if not key:
                if position >= len(names):
                    raise SqlError(
                        8144, f"Procedure or function {self.name} has too many arguments specified.", state=2
                    )
                key = names[position]
            if key not in values:
                raise SqlError(8145, f"@{key} is not a parameter for procedure {self.name}.")
            values[key] = parameter.value
        return [values[name] for name in names]


def parse_name(text: str) -> nodes.Name:
    """The parts of a procedure's name as a driver sends it."""
    cursor = batches.Batch(text, tokenize(text))
    return cursor.name()
