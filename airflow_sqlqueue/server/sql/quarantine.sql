-- make: create the quarantine table (with 'sqlqueue create <queue> --ledger' an administrator can)
CREATE TABLE {table} (
    [QuarantineId] bigint IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    [BatchId] uniqueidentifier NOT NULL,
    [Queue] nvarchar(400) NOT NULL,
    [Reason] nvarchar(200) NOT NULL,
    [QuarantinedAt] datetime2(3) NOT NULL,
    {columns}
);

-- move: move messages of the queue into quarantine
-- Their bytes never leave the server: a client that cannot write a message may not be able to send it either. The
-- target has no triggers, foreign keys or checks, as OUTPUT INTO requires.
DECLARE @batch uniqueidentifier = ?, @queue nvarchar(400) = ?, @reason nvarchar(200) = ?;
WITH head AS (
    SELECT {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek}) WHERE [RowVersion] IN ({row_versions})
)
DELETE FROM head
OUTPUT @batch, @queue, @reason, SYSUTCDATETIME(), {values}
INTO {table} ([BatchId], [Queue], [Reason], [QuarantinedAt], {columns});
SELECT @@ROWCOUNT;

-- move_staged: move staged messages into quarantine
DECLARE @batch uniqueidentifier = ?, @queue nvarchar(400) = ?, @reason nvarchar(200) = ?;
WITH head AS (
    SELECT {columns} FROM {rows} WHERE [BatchId] = @batch AND [PartId] = ? AND [RowVersion] IN ({row_versions})
)
DELETE FROM head
OUTPUT @batch, @queue, @reason, SYSUTCDATETIME(), {values}
INTO {table} ([BatchId], [Queue], [Reason], [QuarantinedAt], {columns});
SELECT @@ROWCOUNT;

-- list: list the quarantine
-- READPAST: a locked row belongs to a part that is not committed yet, or another session is putting it back. Queue has
-- no index, because this is a table for exceptions.
SELECT [QuarantineId], [BatchId], [Reason], [QuarantinedAt], [Id], [RowVersion], DATALENGTH([Headers]),
       COALESCE(DATALENGTH([Body]), 0)
FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Queue] = ? ORDER BY [QuarantineId];

-- requeue: put a message of the quarantine back into the queue
-- The message is unchanged except for a new RowVersion.
INSERT INTO {queue} ({columns})
SELECT {values} FROM {table} WITH (UPDLOCK, ROWLOCK) WHERE [QuarantineId] = ? AND [Queue] = ?;
DECLARE @put int = @@ROWCOUNT;
DELETE FROM {table} WHERE [QuarantineId] = ? AND @put = 1;
SELECT @put;
