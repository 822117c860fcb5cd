"""Endpoint for tests: the statements of the transport, on a driver's connection, without our code.

What each statement does is described in ``docs/transport/queue-tables.md``; the words here are the tests' own.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

import pyodbc

SAVE_NOCOUNT = "DECLARE @saved varchar(3) = 'OFF'; IF ((512 & @@OPTIONS) = 512) SET @saved = 'ON'; SET NOCOUNT ON;"
RESTORE_NOCOUNT = "IF (@saved = 'ON') SET NOCOUNT ON; IF (@saved = 'OFF') SET NOCOUNT OFF;"

SEND = """
INSERT INTO {0} (Id, CorrelationId, ReplyToAddress, Recoverable, Expires, Headers, Body)
VALUES (@Id, @CorrelationId, @ReplyToAddress, 1,
        CASE WHEN @Ttbr IS NOT NULL THEN DATEADD(ms, @Ttbr, GETUTCDATE()) END, @Headers, @Body)
"""
"""Up to version 6."""

SEND_7 = """
INSERT INTO {0} (Id, Recoverable, Expires, Headers, Body) VALUES (@Id, 1,
        CASE WHEN @Ttbr IS NOT NULL THEN DATEADD(ms, @Ttbr, GETUTCDATE()) END, @Headers, @Body);
"""
"""From version 7 on."""

RECEIVE = {
    "2": """WITH m AS (SELECT TOP(1) * FROM {0} WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY [RowVersion] ASC)
        DELETE FROM m OUTPUT deleted.Id, deleted.CorrelationId, deleted.ReplyToAddress, deleted.Recoverable,
        CASE WHEN deleted.Expires IS NOT NULL THEN DATEDIFF(ms, GETUTCDATE(), deleted.Expires) END,
        deleted.Headers, deleted.Body""",
    "3": """WITH m AS (SELECT TOP(1) * FROM {0} WITH (UPDLOCK, READPAST, ROWLOCK)
        WHERE [Expires] IS NULL OR [Expires] > GETUTCDATE() ORDER BY [RowVersion])
        DELETE FROM m OUTPUT deleted.Id, deleted.CorrelationId, deleted.ReplyToAddress, deleted.Recoverable,
        deleted.Headers, deleted.Body;""",
    "4": SAVE_NOCOUNT
    + """WITH m AS (SELECT TOP(1) * FROM {0} WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY RowVersion)
        DELETE FROM m OUTPUT deleted.Id, deleted.CorrelationId, deleted.ReplyToAddress,
        CASE WHEN deleted.Expires IS NULL THEN 0 WHEN deleted.Expires > GETUTCDATE() THEN 0 ELSE 1 END,
        deleted.Headers, deleted.Body;"""
    + RESTORE_NOCOUNT,
    "7": SAVE_NOCOUNT
    + """WITH m AS (SELECT TOP(1) * FROM {0} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK) ORDER BY RowVersion)
        DELETE FROM m OUTPUT deleted.Id, CASE WHEN deleted.Expires IS NULL THEN 0
        WHEN deleted.Expires > GETUTCDATE() THEN 0 ELSE 1 END, deleted.Headers, deleted.Body;"""
    + RESTORE_NOCOUNT,
}
"""By the first version that has it; headers and body are the last two columns."""

PEEK = """SELECT isnull(cast(max([RowVersion]) - min([RowVersion]) + 1 AS int), 0) Id
FROM {0} WITH (READPAST, READCOMMITTEDLOCK)"""

PURGE_EXPIRED = """DELETE FROM {0} WHERE RowVersion IN (
    SELECT TOP (@n) RowVersion FROM {0} WITH (READPAST) WHERE Expires < GETUTCDATE())"""

STORE_DELAYED = """
DECLARE @Due datetime = GETUTCDATE(); SET @Due = DATEADD(ms, @ms, @Due); SET @Due = DATEADD(s, @s, @Due);
SET @Due = DATEADD(n, @n, @Due); SET @Due = DATEADD(hh, @h, @Due); SET @Due = DATEADD(day, @d, @Due);
INSERT INTO {0} (Headers, Body, Due) VALUES (@Headers, @Body, @Due);"""

MOVE_DUE = """
WITH message AS (SELECT TOP(@BatchSize) * FROM {1} WITH (UPDLOCK, READPAST, ROWLOCK) WHERE Due < GETUTCDATE())
DELETE FROM message OUTPUT NEWID(), NULL, NULL, 1, NULL, deleted.Headers, deleted.Body
INTO {0} (Id, CorrelationId, ReplyToAddress, Recoverable, Expires, Headers, Body);
SELECT TOP 1 GETUTCDATE() AS UtcNow, Due AS NextDue FROM {1} WITH (READPAST, READCOMMITTEDLOCK) ORDER BY Due"""

SUBSCRIBE = """
MERGE {0} WITH (HOLDLOCK, TABLOCK) AS target
USING (SELECT @Endpoint AS Endpoint, @QueueAddress AS QueueAddress, @Topic AS Topic) AS source
ON target.Endpoint = source.Endpoint AND target.Topic = source.Topic
WHEN MATCHED AND target.QueueAddress <> source.QueueAddress THEN UPDATE SET QueueAddress = @QueueAddress
WHEN NOT MATCHED THEN INSERT (QueueAddress, Topic, Endpoint) VALUES (@QueueAddress, @Topic, @Endpoint);"""

SUBSCRIBERS = "SELECT DISTINCT QueueAddress FROM {0} WHERE Topic IN (@t1, @t2)"
UNSUBSCRIBE = "DELETE FROM {0} WHERE Endpoint = @e and Topic = @t"

CREATE = """
IF EXISTS (SELECT * FROM {1}sys.objects WHERE object_id = OBJECT_ID(N'{0}') AND type in (N'U')) RETURN
BEGIN TRANSACTION
BEGIN TRY
    EXEC sp_getapplock @Resource = '{2}_lock', @LockMode = 'Exclusive'
    IF EXISTS (SELECT * FROM {1}sys.objects WHERE object_id = OBJECT_ID(N'{0}') AND type in (N'U'))
    BEGIN EXEC sp_releaseapplock @Resource = '{2}_lock' COMMIT RETURN END
    CREATE TABLE {0}(
        [Id] [uniqueidentifier] NOT NULL, [CorrelationId] [varchar](255) NULL, [ReplyToAddress] [varchar](255) NULL,
        [Recoverable] [bit] NOT NULL, [Expires] [datetime] NULL, [Headers] {3} NOT NULL, [Body] [varbinary](max) NULL,
        {5} [RowVersion] [bigint] IDENTITY(1,1) NOT NULL
    ) ON [PRIMARY];
    CREATE {4} INDEX [Index_RowVersion] ON {0} ([RowVersion] ASC)
        WITH (PAD_INDEX = OFF, STATISTICS_NORECOMPUTE = OFF, ALLOW_ROW_LOCKS = ON, FILLFACTOR = 80) ON [PRIMARY]
    CREATE NONCLUSTERED INDEX [Index_Expires] ON {0} ([Expires]) INCLUDE ([Id], [RowVersion]) {6}
    EXEC sp_releaseapplock @Resource = '{2}_lock'
END TRY
BEGIN CATCH
    EXEC sp_releaseapplock @Resource = '{2}_lock';
    THROW;
END CATCH;
COMMIT
"""
"""Filled with the qualified name, the catalog's prefix, the lock's name, the type of Headers, the clustering, a body
string column and the filter of the index on Expires."""


@dataclass(frozen=True)
class Handled:
    """A message as an endpoint has received it."""

    id: str
    headers: dict[str, str | None]
    body: bytes
    expired: bool = False


class Endpoint:
    """An endpoint of one version (2, 3, 4 or 7) with one queue. ``queue`` is a qualified name."""

    def __init__(self, connection_string: str, queue: str, version: str = "7") -> None:
        self.connection = pyodbc.connect(connection_string, autocommit=True)
        self.queue, self.version = queue, version

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def run(self, text: str, *names: str, **parameters: Any) -> list[Any]:
        """A statement with named parameters; the rows of its last result set."""
        declared = {name: f"@{name} {_TYPES[name]} = ?" for name in parameters}
        prefix = f"DECLARE {', '.join(declared.values())};\n" if declared else ""
        cursor = self.connection.cursor()
        cursor.execute(prefix + text.format(*(names or (self.queue,))), *parameters.values())
        rows: list[Any] = []
        while True:
            if cursor.description is not None:
                rows = cursor.fetchall()
            if not cursor.nextset():
                return rows

    def send(
        self, body: bytes, headers: dict[str, str | None] | str | None = None, *, to: str = "", lives: int | None = None
    ) -> str:
        """Send a message with raw, unescaped headers, as endpoints write them; ``lives`` is in milliseconds."""
        identity = str(uuid.uuid4())
        text = headers if isinstance(headers, str) else json.dumps(headers or {}, ensure_ascii=False)
        legacy = {} if self.version == "7" else {"CorrelationId": identity, "ReplyToAddress": "Sales"}
        statement = SEND_7 if self.version == "7" else SEND
        self.run(statement, to or self.queue, Id=identity, **legacy, Ttbr=lives, Headers=text, Body=body)
        return identity

    def receive(self) -> Handled | None:
        """Receive one message; an expired one is handed out flagged where the version returns it at all."""
        rows = self.run(RECEIVE[self.version])
        if not rows:
            return None
        row = rows[0]
        late = _is_late(row, self.version)
        return Handled(str(row[0]).lower(), json.loads(row[-2]) if row[-2] else {}, bytes(row[-1] or b""), late)

    def receive_all(self) -> list[Handled]:
        """Receive until nothing is left; expired messages are dropped, as an endpoint does."""
        handled = []
        while (message := self.receive()) is not None:
            if not message.expired:
                handled.append(message)
        return handled

    def purge_expired(self, limit: int = 10_000) -> None:
        self.run(PURGE_EXPIRED, n=limit)

    def delay(self, delayed: str, body: bytes, headers: dict[str, str | None], *, days: int = 0, ms: int = 0) -> None:
        """Store a message in a table of delayed messages."""
        due = {"ms": ms, "s": 0, "n": 0, "h": 0, "d": days}
        self.run(STORE_DELAYED, delayed, **due, Headers=json.dumps(headers, ensure_ascii=False), Body=body)

    def move_due(self, delayed: str, limit: int = 100) -> None:
        """Move what is due into the endpoint's own queue."""
        self.run(MOVE_DUE, self.queue, delayed, BatchSize=limit)

    def subscribe(self, table: str, endpoint: str, address: str, topic: str) -> None:
        self.run(SUBSCRIBE, table, Endpoint=endpoint, QueueAddress=address, Topic=topic)

    def unsubscribe(self, table: str, endpoint: str, topic: str) -> None:
        self.run(UNSUBSCRIBE, table, e=endpoint, t=topic)

    def subscribers(self, table: str, topic: str, base: str = "System.Object") -> list[str]:
        return sorted(address for (address,) in self.run(SUBSCRIBERS, table, t1=topic, t2=base))

    def create(self, catalog: str = "", headers: str = "[nvarchar](max)", clustering: str = "NONCLUSTERED") -> None:
        """Create the queue if it is missing, under the application lock, as an installer does.

        The lock is released before the COMMIT; an installer takes it for granted that the table, or an index, is there.
        """
        prefix = f"{catalog}." if catalog else ""
        try:
            self.run(CREATE, self.queue, prefix, self.queue, headers, clustering, "", "WHERE [Expires] IS NOT NULL")
        except pyodbc.Error as error:
            if not any(f"({number})" in str(error) for number in (2714, 1913)):
                raise


def _is_late(row: Any, version: str) -> bool:
    """Whether a received row says that its message has expired; version 3 leaves such rows alone."""
    if version == "2":
        return row[4] is not None and row[4] <= 0
    return version != "3" and row[{"4": 3, "7": 1}[version]] == 1


_TYPES = {
    "Id": "uniqueidentifier",
    "CorrelationId": "varchar(255)",
    "ReplyToAddress": "varchar(255)",
    "Ttbr": "int",
    "Headers": "nvarchar(max)",
    "Body": "varbinary(max)",
    **dict.fromkeys(("n", "ms", "s", "h", "d", "BatchSize"), "int"),
    **dict.fromkeys(("Endpoint", "QueueAddress", "Topic", "e", "t", "t1", "t2"), "nvarchar(200)"),
}
