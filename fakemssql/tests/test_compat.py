"""Drivers of Python that we did not write, through the scenario of ``make compat``; and what that scenario notices."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from compat import __main__ as table
from compat import scenario
from compat.clients import OTHERS, PYTHON, Client, NotHere
from compat.running import run
from fakemssql.tds.versions import TDS_7_2, TDS_7_4
from support.servers import Server


@pytest.mark.parametrize("client", PYTHON, ids=[client.name for client in PYTHON])
def test_a_driver_with_a_queue_table(server: Server, client: Client) -> None:
    """In the first of its kinds of encryption; ``make compat`` has the others."""
    try:
        command = client.make()
    except NotHere as error:
        pytest.skip(str(error))
    version, found = run(client, command, client.modes[0], server)
    assert version
    assert found == dict.fromkeys(scenario.STEPS, "")


def said() -> dict[str, dict[str, Any]]:
    """What a program says when all is well."""
    first, second, third = map(scenario.message, (1, 2, 3))
    return {
        "login": {"step": "login", "connection": f"{TDS_7_4.acknowledged} TRUE"},
        "create": {"step": "create", "tables": 1},
        "send": {"step": "send", "count": 3},
        "receive": {"step": "receive", "held": first, "others": [second, third, None], "again": first, "left": 0},
        "errors": {"step": "errors", "numbers": [208, 2627, 2601, 1222, 51234]},
        "cancel": {"step": "cancel", "waiting": 0.5, "blocked": 0.6, "after": 7},
    }


@pytest.mark.parametrize(
    ("step", "fact", "value"),
    [
        ("login", "connection", f"{TDS_7_4.acknowledged} FALSE"),
        ("login", "connection", f"{TDS_7_2.acknowledged} TRUE"),
        ("create", "tables", 0),
        ("send", "count", 2),
        ("receive", "held", None),
        ("receive", "left", 1),
        ("errors", "numbers", [208, 2627, 2627, 1222, 51234]),
        ("cancel", "waiting", 30.0),
        ("cancel", "blocked", None),
        ("cancel", "after", 0),
    ],
)
def test_faults_are_shown(step: str, fact: str, value: object) -> None:
    facts = said()
    assert not any(scenario.check("full", TDS_7_4.acknowledged, facts).values())
    facts[step][fact] = value
    assert [name for name, wrong in scenario.check("full", TDS_7_4.acknowledged, facts).items() if wrong] == [step]
    del facts[step]
    assert scenario.check("full", TDS_7_4.acknowledged, facts)[step] == "not reached"


def test_a_login_in_clear_shows(server: Server) -> None:
    """A client that says it encrypts and does not."""
    liar = Client("liar", ("full",), list)
    program = str(Path(table.__file__).parent / "python" / "scenario.py")
    lie = {"COMPAT_MODE": "plain", "COMPAT_CONNECTION": f"SELECT '{TDS_7_4.acknowledged} TRUE'"}
    code = f"import os, runpy; os.environ.update({lie!r}); runpy.run_path({program!r}, run_name='__main__')"
    _, found = run(liar, [sys.executable, "-c", code, "pymssql"], "full", server)
    assert found["login"] == "password and statement in clear: (True, True)"


def test_a_missing_toolchain_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    reasons = {}
    for client in OTHERS:
        with pytest.raises(NotHere) as caught:
            client.make()
        reasons[client.name] = str(caught.value)
    assert reasons == {
        "mssql-jdbc": "a JDK is not installed (no javac)",
        "jtds": "a JDK is not installed (no javac)",
        "go-mssqldb": "Go is not installed (no go)",
        "tedious": "Node.js is not installed (no node)",
    }


def test_a_failed_build_is_reported_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    failing = tmp_path / "go"
    failing.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.path.dirname(shutil.which('sh') or '')}")
    monkeypatch.setattr(table, "FakeServer", StillServer)
    assert table.main(["go-mssqldb"]) == 0
    output, errors = capfd.readouterr()
    assert "| go-mssqldb | | | | not run: go build, which fetches the module failed (above) |" in output
    assert output.endswith("1 client not run:\n0 passed, 0 failed\n")
    assert errors == "no such module\n\n"


class StillServer:
    """In the place of one that nobody connects to."""

    def __init__(self, **options: object) -> None:
        pass

    def __enter__(self) -> StillServer:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_an_unknown_client_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert table.main(["pymsql"]) == 2
    assert "There is no client 'pymsql': choose of mssql-jdbc, " in capsys.readouterr().err
