"""sp_rename."""

from __future__ import annotations

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.definitions.renaming import rename
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.arguments import Arguments, parse_name
from fakemssql.tsql.runtime.session.session import Session


def sp_rename(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    old, new, kind = arguments.take("objname", "newname", "objtype")
    kind = (kind or "OBJECT").upper()
    name: nodes.Name = parse_name(old or "")
    session.transactions.define(lambda: rename(session.definer, name, str(new), kind))
    frame.output.message(
        SqlError(
            15477, "Caution: Changing any part of an object name could break scripts and stored procedures.", severity=0
        )
    )
    return 0
