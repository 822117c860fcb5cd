"""``python -m compat [client ...]``: a table of what each client did on a fakemssql; ends with 1 if something failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from fakemssql import FakeServer

from compat import scenario
from compat.clients import OTHERS, PYTHON, Client, NotHere
from compat.relay import Relay

_SECONDS = 60
"""For one program."""
_DATABASE = "compat"


def run(client: Client, command: Sequence[str], mode: str, server: FakeServer) -> tuple[str, dict[str, str]]:
    """The client's version, and what is wrong with each step."""
    hold = client.hold if mode == "login" else 0.0
    with Relay(server.host, server.port, hold) as relay:
        variables = scenario.variables(mode) | {
            "COMPAT_HOST": "127.0.0.1",
            "COMPAT_PORT": str(relay.port),
            "COMPAT_USER": server.user,
            "COMPAT_PASSWORD": server.password,
            "COMPAT_DATABASE": server.databases[0],
            "COMPAT_CERTIFICATE": str(server.certificate),
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
    found = scenario.check(mode, said)
    in_clear = relay.password_in_clear(server.password), relay.in_clear("sp_getapplock")
    if not found["login"] and in_clear != (mode == "plain", mode in {"plain", "login"}):
        found["login"] = f"password and statement in clear: {in_clear}"
    if errors:
        sys.stderr.write(errors)
        found["cancel"] = found["cancel"] or "the program failed afterwards"
    return str(said.get("client", {}).get("version", "")), found


def main(names: Sequence[str]) -> int:
    started = time.monotonic()
    passed = failed = left_out = 0
    sys.stdout.write("| client | version | encryption | " + " | ".join(scenario.STEPS) + " |\n")
    sys.stdout.write("|---" * (3 + len(scenario.STEPS)) + "|\n")
    with FakeServer(databases=[_DATABASE]) as server:
        for client in (*OTHERS, *PYTHON):
            if names and client.name not in names:
                continue
            try:
                command = client.make()
            except NotHere as error:
                sys.stdout.write(f"| {client.name} | | | not run: {error} |\n")
                left_out += 1
                continue
            for mode in client.modes:
                version, found = run(client, command, mode, server)
                shown = " | ".join(wrong or "yes" for wrong in found.values())
                sys.stdout.write(f"| {client.name} | {version} | {mode} | {shown} |\n")
                sys.stdout.flush()
                passed, failed = (passed, failed + 1) if any(found.values()) else (passed + 1, failed)
    seconds = time.monotonic() - started
    sys.stdout.write(f"\nIn {seconds:.0f} seconds, {left_out} clients not run:\n{passed} passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
