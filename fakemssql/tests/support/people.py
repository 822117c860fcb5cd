"""Logins for the tests of permissions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PASSWORD = "Secret-1 of a login"


@dataclass
class Someone:
    """A login and its user, both of that name."""

    name: str
    connect: Callable[..., Any]

    def session(self, database: str = "shop") -> Any:
        return self.connect(self.name, PASSWORD, database)
