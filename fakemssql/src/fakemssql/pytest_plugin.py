"""The fixture that fakemssql brings to pytest: ``def test_it(fakemssql): connect(fakemssql.url())``.

pytest loads this in every run, so it imports nothing that a run without the fixture would have to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fakemssql import FakeServer


@pytest.fixture(scope="session", name="fakemssql")
def running_server() -> Iterator[FakeServer]:
    """A running FakeServer for all tests of the session; with pytest-xdist each worker has one of its own."""
    from fakemssql import FakeServer

    with FakeServer() as server:
        yield server
