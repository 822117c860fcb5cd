"""Runs a client's program on a server, through a relay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from compat import scenario
from compat.clients import FREETDS, Client
from compat.relay import Relay

_SECONDS = 60
"""Limit for the run of a program."""


def run(client: Client, command: Sequence[str], mode: str, server: Any) -> tuple[str, dict[str, str]]:
    """Run a client; returns its version and the fault of each step (empty for none)."""
    hold = client.hold if mode == "login" else 0.0
    with Relay(server.host, server.port, hold) as relay:
        variables = scenario.variables(mode) | {
            "COMPAT_HOST": "127.0.0.1",
            "COMPAT_PORT": str(relay.port),
            "COMPAT_USER": server.user,
            "COMPAT_PASSWORD": server.password,
            "COMPAT_DATABASE": server.databases[0],
            "COMPAT_CERTIFICATE": str(getattr(server, "certificate", "")),
            "COMPAT_FREETDS": str(FREETDS),
        }
        try:
            done = subprocess.run(
                command, env=os.environ | variables, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
            output, errors = done.stdout, done.stderr if done.returncode else ""
        except subprocess.TimeoutExpired as error:
            output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
            errors = f"{client.name} {mode}: it took more than {_SECONDS} seconds\n"
    said: dict[str, dict[str, Any]] = {}
    for line in output.splitlines():
        facts = json.loads(line)
        said[facts["step"]] = facts
    found = scenario.check(mode, client.version(mode).acknowledged, said)
    in_clear = relay.password_in_clear(server.password), relay.in_clear("sp_getapplock")
    if not found["login"] and in_clear != (mode == "plain", mode in {"plain", "login"}):
        found["login"] = f"password and statement in clear: {in_clear}"
    if errors:
        sys.stderr.write(errors)
        found["cancel"] = found["cancel"] or "the program failed afterwards"
    return str(said.get("client", {}).get("version", "")), found
