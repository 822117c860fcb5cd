"""sp_rename."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.definitions.renaming import rename
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.calls import Arguments, parse_name, procedure
from fakemssql.tsql.runtime.frames import Frame

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session


@procedure("sp_rename")
def _rename(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
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
