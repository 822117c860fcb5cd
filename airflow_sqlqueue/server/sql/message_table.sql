-- make: create the table of staged messages (with 'sqlqueue create <queue> --ledger' an administrator can)
-- The table has no triggers, foreign keys or checks, because the target of OUTPUT INTO must not have them.
CREATE TABLE {table} (
    [BatchId] uniqueidentifier NOT NULL,
    [PartId] uniqueidentifier NOT NULL,
    {columns}
);

-- index: create the index of the table of staged messages
-- The index is not unique, because an identity such as RowVersion may come twice. The rows of parallel workers' parts
-- are apart from each other, so that no worker waits for another's page.
CREATE CLUSTERED INDEX [Index_Batch] ON {table} ([BatchId] ASC, [PartId] ASC, [RowVersion] ASC);

-- take: move messages of the queue into the table of staged messages
-- The head is that of queue.delete_first_rows. Its RowVersions are above those already in the part, so the rows above these are
-- the ones that this statement has moved. Expired rows are moved as well, because their RowVersions count.
DECLARE @batch uniqueidentifier = ?, @part uniqueidentifier = ?, @after bigint = ?, @keep bit = ?;
WITH sized AS (
    SELECT {names}, SUM([Bytes]) OVER (ORDER BY [RowVersion] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) {names}, COALESCE(DATALENGTH([Headers]), 0) + COALESCE(DATALENGTH([Body]), 0) AS [Bytes]
        FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
        WHERE {window} ORDER BY [RowVersion]
    ) AS first
),
head AS (SELECT * FROM sized WHERE [BytesBefore] < ?)
DELETE FROM head
OUTPUT @batch, @part, {values}
INTO {table} ([BatchId], [PartId], {columns});
DECLARE @taken int, @expired int, @bytes bigint, @low bigint, @high bigint, @suspect int;
SELECT @taken = COUNT(*), @low = MIN([RowVersion]), @high = MAX([RowVersion]),
       @expired = SUM(CASE WHEN [Expired] = 1 AND @keep = 0 THEN 1 ELSE 0 END),
       @bytes = SUM(CASE WHEN [Expired] = 1 AND @keep = 0 THEN 0
                         ELSE CAST(COALESCE(DATALENGTH([Headers]), 0) + COALESCE(DATALENGTH([Body]), 0) AS bigint) END),
       @suspect = SUM(CASE WHEN [Expired] = 1 AND @keep = 0 THEN 0 WHEN {suspect} THEN 1 ELSE 0 END)
FROM {table} WITH (ROWLOCK) WHERE [BatchId] = @batch AND [PartId] = @part AND [RowVersion] > @after;
IF @expired > 0
    DELETE FROM {table} WITH (ROWLOCK) WHERE [BatchId] = @batch AND [PartId] = @part AND [RowVersion] > @after AND [Expired] = 1;
SELECT @taken, @expired, @bytes, @low, @high, @suspect;

-- copy: copy messages of the queue into the table of staged messages
-- The page is that of queue.peek_page. Expired rows are copied as well and deleted again, because their RowVersions
-- count.
DECLARE @batch uniqueidentifier = ?, @part uniqueidentifier = ?, @after bigint = ?, @keep bit = ?;
INSERT INTO {table} ([BatchId], [PartId], {columns})
SELECT @batch, @part, {values}
FROM (
    SELECT *, SUM([Bytes]) OVER (ORDER BY [RowVersion] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) {names}, COALESCE(DATALENGTH([Headers]), 0) + COALESCE(DATALENGTH([Body]), 0) AS [Bytes]
        FROM {queue} WITH ({readpast}ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE {window} ORDER BY [RowVersion]
    ) AS first
) AS sized
WHERE [BytesBefore] < ?;
DECLARE @copied TABLE ([RowVersion] bigint NOT NULL, [Dropped] bit NOT NULL, [Bytes] bigint NOT NULL, [Suspect] bit NOT NULL);
INSERT INTO @copied
SELECT [RowVersion], CASE WHEN [Expired] = 1 AND @keep = 0 THEN 1 ELSE 0 END,
       CAST(COALESCE(DATALENGTH([Headers]), 0) + COALESCE(DATALENGTH([Body]), 0) AS bigint),
       CASE WHEN {suspect} THEN 1 ELSE 0 END
FROM {table} WITH (ROWLOCK) WHERE [BatchId] = @batch AND [PartId] = @part AND [RowVersion] > @after;
IF EXISTS (SELECT * FROM @copied WHERE [Dropped] = 1)
    DELETE FROM {table} WITH (ROWLOCK) WHERE [BatchId] = @batch AND [PartId] = @part AND [RowVersion] > @after AND [Expired] = 1;
SELECT [RowVersion], [Dropped], [Bytes], [Suspect] FROM @copied ORDER BY [RowVersion];

-- suspect: read messages that Spark may not be able to read
-- ROWLOCK here and below: a page at the edge of a part may have uncommitted rows of another part.
SELECT {columns}, COALESCE(DATALENGTH([Headers]), 0) + COALESCE(DATALENGTH([Body]), 0)
FROM {table} WITH (ROWLOCK) WHERE [BatchId] = ? AND [PartId] = ? AND [RowVersion] > ? AND ({suspect});

-- redactable: read messages of the batch that rules of redaction concern
-- A body over the limit, which is not parsed, stays on the server.
SELECT {columns}, COALESCE(DATALENGTH([Body]), 0) FROM {table} WITH (ROWLOCK)
WHERE [BatchId] = ? AND [PartId] = ? AND [RowVersion] IN ({row_versions}) ORDER BY [RowVersion];

-- redact: redact messages
DECLARE @given TABLE (
    [RowVersion] bigint NOT NULL, [OldId] uniqueidentifier NOT NULL, [NewId] uniqueidentifier NOT NULL,
    [Flags] int NOT NULL,
    {addressed}
);
INSERT INTO @given VALUES {rows};
UPDATE t SET [Id] = CASE WHEN t.[Id] = g.[OldId] THEN g.[NewId] END,
    {changes}
FROM {table} AS t WITH (ROWLOCK)
INNER JOIN @given AS g ON g.[RowVersion] = t.[RowVersion] AND (g.[OldId] = t.[Id] OR t.[Id] IS NULL)
WHERE t.[BatchId] = ? AND t.{owner} = ?;
SELECT @@ROWCOUNT;

-- read: read messages of the batch
-- A page has all rows of its last RowVersion, so that rows with the same one stay together. It ends before the rows
-- that begin behind a number of bytes, which limits the memory of the reader.
DECLARE @batch uniqueidentifier = ?, @part uniqueidentifier = ?, @after bigint = ?, @to bigint;
SELECT @to = MAX([RowVersion])
FROM (
    SELECT [RowVersion], SUM([Bytes]) OVER (ORDER BY [RowVersion] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) [RowVersion],
               COALESCE(DATALENGTH([Headers]), 0) + COALESCE(DATALENGTH([Body]), 0) AS [Bytes]
        FROM {table} WITH (ROWLOCK)
        WHERE [BatchId] = @batch AND [PartId] = @part AND [RowVersion] > @after ORDER BY [RowVersion]
    ) AS first
) AS sized
WHERE [BytesBefore] < ?;
SELECT {columns} FROM {table} WITH (ROWLOCK)
WHERE [BatchId] = @batch AND [PartId] = @part AND [RowVersion] > @after AND [RowVersion] <= @to ORDER BY [RowVersion];

-- erase: erase messages of the batch
DECLARE @given TABLE ([RowVersion] bigint NOT NULL, [Id] uniqueidentifier NOT NULL);
DECLARE @gone TABLE ([Bytes] bigint NOT NULL);
INSERT INTO @given VALUES {rows};
DELETE t
OUTPUT COALESCE(DATALENGTH(deleted.[Headers]), 0) + COALESCE(DATALENGTH(deleted.[Body]), 0) INTO @gone
FROM {table} AS t WITH (ROWLOCK)
INNER JOIN @given AS g ON g.[RowVersion] = t.[RowVersion] AND g.[Id] = t.[Id]
WHERE t.[BatchId] = ? AND t.[PartId] = ?;
SELECT COUNT(*), COALESCE(SUM([Bytes]), 0) FROM @gone;

-- leave_out: leave messages out of the batch
DELETE FROM {table} WITH (ROWLOCK) WHERE [BatchId] = ? AND [PartId] = ? AND [RowVersion] IN ({row_versions});
SELECT @@ROWCOUNT;

-- remove: remove messages of the batch
DELETE TOP (?) FROM {table} WITH (ROWLOCK) WHERE [BatchId] = ?;
SELECT @@ROWCOUNT;
