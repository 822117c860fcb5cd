"""Result sets of system procedures."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import ResponseWriter, ResultColumn
from fakemssql.tsql.datatypes.codec import encode
from fakemssql.tsql.datatypes.sqltypes import nvarchar
from fakemssql.tsql.pg import Request
from fakemssql.tsql.runtime.session.session import Session


def result_set(output: ResponseWriter, session: Session, sql: str, columns: list[tuple[str, Any]], *texts: Any) -> int:
    """Send the rows of a PostgreSQL query over text parameters as a result set; returns their number."""
    session.transactions.start()
    values = [None if text is None else encode(nvarchar(4000), str(text)) for text in texts]
    result = session.transactions.run([Request(sql, values, [25] * len(values))])
    output.columns([ResultColumn(name, kind, result.ftype(i)) for i, (name, kind) in enumerate(columns)])
    if result.ntuples:
        output.rows(result)
    session.rowcount = result.ntuples
    output.done(None if session.options.nocount else result.ntuples)
    return int(result.ntuples)
