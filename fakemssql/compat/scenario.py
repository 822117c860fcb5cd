"""Scenario of each client: the variables for its program, and the lines that it should print.

A program logs in twice, creates a queue table with the transport's script, sends three messages, receives them by the
transport's statement on two connections, causes errors, and cancels a waiting statement and a blocked one. It prints
one JSON object for each step. Its variables start with ``COMPAT_``:

HOST, PORT, USER, PASSWORD, DATABASE, CERTIFICATE
    address of the relay, login, database, and the server's certificate for clients that pin it
MODE
    ``plain``, ``login`` (only the login is encrypted), ``full`` or ``strict`` (TDS 8.0)
CREATE, PREPARE, DROP
    statements without results; the second makes a table for the errors
SEND
    a statement with the parameters @Id, @Ttbr (NULL), @Headers and @Body
RECEIVE
    a statement with the columns Id, Expired, Headers and Body
CONNECTION, TABLES, COUNT
    queries with one value
HOLD
    statement of the first connection, in a transaction, while the second one has errors and is blocked
ERRORS
    statements, one on a line, which fail on the second connection
WAIT, BLOCKED
    statements to cancel after half a second
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from support import transport

SIZES = (300, 0, 100_000)
"""Sizes of the bodies of the three messages."""
NUMBERS = [208, 2627, 2601, 1222, 51234]
STEPS = ("login", "create", "send", "receive", "errors", "cancel")


def variables(mode: str) -> dict[str, str]:
    """Variables of a program, with statements on tables of its own."""
    name = f"compat_{uuid.uuid4().hex[:12]}"
    queue, other = f"[dbo].[{name}]", f"[dbo].[{name}_other]"
    held = f"UPDATE {other} SET Name = N'held' WHERE Id = 9"
    found = {
        "MODE": mode,
        "CREATE": transport.CREATE.format(queue, "", name, "nvarchar(max)", "CLUSTERED", "", ""),
        "PREPARE": f"CREATE TABLE {other} (Id int NOT NULL PRIMARY KEY, Name nvarchar(20) NOT NULL); "
        f"CREATE UNIQUE INDEX Index_Name ON {other} (Name); INSERT INTO {other} VALUES (1, N'één'), (9, N'free');",
        "DROP": f"DROP TABLE {queue}; DROP TABLE {other};",
        "SEND": transport.SEND_7.format(queue),
        "RECEIVE": transport.RECEIVE["7"].format(queue).replace("END,", "END AS Expired,", 1),
        "CONNECTION": "SELECT CAST(protocol_version AS varchar(11)) + ' ' + encrypt_option "
        "FROM sys.dm_exec_connections WHERE session_id = @@SPID",
        "TABLES": f"SELECT COUNT(*) FROM sys.tables WHERE object_id = OBJECT_ID(N'{queue}')",
        "COUNT": f"SELECT COUNT(*) FROM {queue} WITH (READPAST, READCOMMITTEDLOCK)",
        "HOLD": held,
        "ERRORS": "\n".join(
            (
                f"SELECT * FROM [dbo].[{name}_missing]",
                f"INSERT INTO {other} VALUES (1, N'another')",
                f"INSERT INTO {other} VALUES (2, N'één')",
                f"SET LOCK_TIMEOUT 100; {held}",
                "THROW 51234, N'thrown', 1",
            )
        ),
        "WAIT": "WAITFOR DELAY '00:00:30'",
        "BLOCKED": held,
    }
    return {f"COMPAT_{key}": text for key, text in found.items()}


def message(number: int) -> list[str]:
    """Id of a message, and hash of its headers and body."""
    headers = json.dumps({"Number": str(number), "Greeting": "Grüße Ω 😀"}, ensure_ascii=False, separators=(",", ":"))
    body = bytes((index * 7 + number) % 256 for index in range(SIZES[number - 1]))
    return [f"00000000-0000-0000-0000-{number:012}", hashlib.sha256(headers.encode() + body).hexdigest()]


def check(mode: str, tds_version: int, said: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Faults by step, empty for none; ``said`` has the lines of a program by their step."""
    first, second, third = map(message, (1, 2, 3))
    expected: dict[str, dict[str, Any]] = {
        "login": {"connection": f"{tds_version} {'TRUE' if mode in {'full', 'strict'} else 'FALSE'}"},
        "create": {"tables": 1},
        "send": {"count": len(SIZES)},
        "receive": {"held": first, "others": [second, third, None], "again": first, "left": 0},
        "errors": {"numbers": NUMBERS},
    }
    found = {}
    for step in STEPS:
        facts = {key: value for key, value in said.get(step, {}).items() if key != "step"}
        if not facts:
            found[step] = "not reached"
        elif step == "cancel":
            found[step] = _check_cancel(facts)
        else:
            found[step] = "" if facts == expected[step] else f"{facts} instead of {expected[step]}"
    return found


def _check_cancel(facts: Mapping[str, Any]) -> str:
    for what in ("waiting", "blocked"):
        seconds = facts[what]
        if seconds is None or not 0.3 < seconds < 20:
            return f"{what}: it ended after {seconds} seconds"
    return "" if facts["after"] == 7 else "the connection is not usable afterwards"
