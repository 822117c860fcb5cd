"""Logins with users in the database, and a table of two rows with a view and procedures around it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.people import PASSWORD, Someone

_numbers = itertools.count(1)


@pytest.fixture
def people(client: Any, connect: Callable[..., Any]) -> Iterator[Callable[[], Someone]]:
    """Makes logins with users, and drops them."""
    made: list[str] = []

    def make(options: str = "") -> Someone:
        name = f"person{next(_numbers)}"
        client.ok(f"CREATE LOGIN {name} WITH PASSWORD = N'{PASSWORD}', CHECK_POLICY = OFF")
        client.ok(f"CREATE USER {name} FOR LOGIN {name} {options}")
        made.append(name)
        return Someone(name, connect)

    yield make
    client.run("IF @@TRANCOUNT > 0 ROLLBACK; USE shop")
    for name in made:
        client.run(f"DROP USER IF EXISTS {name}")
        client.ok(f"DROP LOGIN {name}")


@pytest.fixture
def someone(people: Callable[[], Someone]) -> Someone:
    return people()


@pytest.fixture
def things(client: Any) -> str:
    """The name of a table with rows; a view ``_v`` and a procedure ``_p`` read it, a procedure ``_w`` writes it."""
    name = f"thing{next(_numbers)}"
    client.ok(
        f"CREATE TABLE {name} (id int NOT NULL PRIMARY KEY, word nvarchar(20) NULL CONSTRAINT DF_{name} DEFAULT 'x')"
    )
    client.ok(f"INSERT INTO {name} VALUES (1, N'one'), (2, N'two')")
    client.ok(f"CREATE VIEW {name}_v AS SELECT id, word FROM {name}")
    client.ok(f"CREATE PROCEDURE {name}_p AS SELECT COUNT(*) FROM {name}")
    client.ok(f"CREATE PROCEDURE {name}_w @id int AS INSERT INTO {name} (id) VALUES (@id)")
    return name
