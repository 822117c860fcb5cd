-- make: create the archive of failed messages (with 'sqlqueue create <queue> --ledger' an administrator can)
-- The key begins with the queue, so that every statement is one seek, without a look-up.
CREATE TABLE {table} (
    [ArchiveId] bigint IDENTITY(1, 1) NOT NULL,
    [Queue] nvarchar(400) NOT NULL,
    [ArchivedAt] datetime2(3) NOT NULL,
    [ArchivedBy] nvarchar(200) NOT NULL,
    [Reason] nvarchar(500) NOT NULL,
    {columns},
    PRIMARY KEY CLUSTERED ([Queue] ASC, [ArchiveId] ASC)
);

-- put: archive messages of the queue
-- Their bytes never leave the server, and one statement both deletes and inserts. The target has no triggers, foreign
-- keys or checks, as OUTPUT INTO requires.
DECLARE @queue nvarchar(400) = ?, @by nvarchar(200) = ?, @reason nvarchar(500) = ?;
WITH head AS (
    SELECT {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek}) WHERE [RowVersion] IN ({row_versions})
)
DELETE FROM head
OUTPUT @queue, SYSUTCDATETIME(), @by, @reason, {values}
INTO {table} ([Queue], [ArchivedAt], [ArchivedBy], [Reason], {columns});
SELECT @@ROWCOUNT;

-- page: read the archive
-- A page ends after a number of bytes of headers, as queue.peek_page does. READPAST: a locked row belongs to an archive,
-- a restore or a deletion that is not committed yet.
SELECT [ArchiveId], [Id], {headers}, [HeaderBytes], [BodyBytes], [ArchivedAt], [ArchivedBy], [Reason]
FROM (
    SELECT *, SUM([Bytes]) OVER (ORDER BY [ArchiveId] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) [ArchiveId], [Id], [Headers], [ArchivedAt], [ArchivedBy], [Reason],
               DATALENGTH([Headers]) AS [HeaderBytes], DATALENGTH([Body]) AS [BodyBytes],
               COALESCE(DATALENGTH([Headers]), 0) AS [Bytes]
        FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE [Queue] = ? AND [ArchiveId] > ? AND [ArchiveId] <= ? AND [ArchivedAt] < ? ORDER BY [ArchiveId]
    ) AS first
) AS sized
WHERE [BytesBefore] < ? ORDER BY [ArchiveId];

-- body: read a message of the archive
SELECT [Body] FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Queue] = ? AND [ArchiveId] = ?;

-- end: find the end of the archive
-- The result includes messages that others have locked: these must be reported.
SELECT MAX([ArchiveId]) FROM {table} WITH (NOLOCK) WHERE [Queue] = ?;

-- count_left: count the messages of the archive that others hold
SELECT COUNT_BIG(*) FROM {table} WITH (NOLOCK) WHERE [Queue] = ? AND [ArchiveId] <= ? AND [ArchivedAt] < ?;

-- restore: put messages of the archive back into the queue
-- The messages do not expire, so that nothing purges them behind the back of whoever restores them. A table variable is
-- needed, because OUTPUT INTO has no order and allows no triggers and foreign keys on its target.
DECLARE @taken TABLE ({staged});
WITH head AS (
    SELECT {names} FROM {table} WITH (UPDLOCK, READPAST, ROWLOCK) WHERE [Queue] = ? AND [ArchiveId] IN ({numbers})
)
DELETE FROM head
OUTPUT {deleted}
INTO @taken;
INSERT INTO {queue} ({columns})
SELECT {values} FROM @taken ORDER BY [RowVersion];
SELECT COUNT(*) FROM @taken;

-- delete: delete messages of the archive
DELETE FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Queue] = ? AND [ArchiveId] IN ({numbers});
SELECT @@ROWCOUNT;

-- now: read the server's clock
SELECT SYSUTCDATETIME();
