-- make: create the table of copies (with 'sqlqueue create <queue> --ledger' an administrator can)
CREATE TABLE {table} (
    [CopyId] uniqueidentifier NOT NULL PRIMARY KEY,
    [Name] nvarchar(220) NOT NULL,
    [Queue] nvarchar(400) NOT NULL,
    [TableId] nvarchar(60) NOT NULL,
    [High] bigint NOT NULL,
    [Gaps] int NOT NULL,
    [ClosingUpTo] bigint NULL,
    [ClosingSince] datetime2(3) NULL,
    [Messages] bigint NOT NULL,
    [ChangedAt] datetime2(3) NOT NULL,
    [HighId] uniqueidentifier NULL
);

-- make_gaps: create the table of the gaps of copies (with 'sqlqueue create <queue> --ledger' an administrator can)
CREATE TABLE {table} (
    [CopyId] uniqueidentifier NOT NULL,
    [Low] bigint NOT NULL,
    [High] bigint NOT NULL,
    PRIMARY KEY ([CopyId], [Low])
);

-- lock: take the application lock of the copy
-- The transaction owns the lock: parts of one copy come one after the other, also those of different batches.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
SELECT @result;

-- find: read the copy
-- The queue has an alias here and below, because c.[High] would be a column of a queue that is called c.
-- A table that was dropped and made again has another id. After a TRUNCATE or a reseed its last value is lower, and once
-- it has grown again, another message has the number of the watermark.
SELECT t.object_id, t.create_date, i.object_id, CAST(i.last_value AS bigint),
       c.[TableId], c.[High], c.[Gaps], c.[ClosingUpTo], DATEDIFF_BIG(second, c.[ClosingSince], SYSUTCDATETIME()),
       CASE WHEN EXISTS (
           SELECT * FROM {queue} AS q WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
           WHERE q.[RowVersion] = c.[High] AND q.[Id] <> c.[HighId]
       ) THEN 1 ELSE 0 END
FROM {tables}.sys.tables AS t
LEFT JOIN {tables}.sys.identity_columns AS i ON i.object_id = t.object_id AND i.name = N'RowVersion'
LEFT JOIN {table} AS c ON c.[CopyId] = ?
WHERE t.object_id = OBJECT_ID(?);

-- enter: enter the copy
INSERT INTO {table} ([CopyId], [Name], [Queue], [TableId], [High], [Gaps], [Messages], [ChangedAt])
VALUES (?, ?, ?, ?, ?, 0, 0, SYSUTCDATETIME());

-- forget: forget the copy
DELETE FROM {table} WHERE [CopyId] = ?;
SELECT @@ROWCOUNT;

-- in_gaps: find messages in the gaps of the copy
-- Each gap is a seek in the index on RowVersion, which returns no more than numbers. It has one upper bound: of two the
-- server would take one for the seek, and perhaps read every row up to the mark for each gap. A locked row is skipped:
-- its number stays in its gap.
DECLARE @up_to bigint = ?;
SELECT TOP (?) m.[RowVersion], g.[Low], g.[High]
FROM {gap} AS g
CROSS APPLY (
    SELECT q.[RowVersion] FROM {queue} AS q WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE q.[RowVersion] >= g.[Low] AND q.[RowVersion] <= CASE WHEN g.[High] < @up_to THEN g.[High] ELSE @up_to END
) AS m
WHERE g.[CopyId] = ? ORDER BY g.[Low], m.[RowVersion];

-- drop_gaps: replace gaps of the copy
DELETE FROM {gap} WHERE [CopyId] = ? AND [Low] IN ({lows});

-- add_gaps: enter gaps of the copy
-- DISTINCT, because a list of values is padded to one of a few sizes.
DECLARE @copy uniqueidentifier = ?;
INSERT INTO {gap} ([CopyId], [Low], [High])
SELECT DISTINCT @copy, v.[Low], v.[High] FROM (VALUES {rows}) AS v ([Low], [High]);

-- advance: note what the copy has copied
-- The message at the new watermark may be locked or gone; then its Id stays unknown.
DECLARE @high bigint = ?;
UPDATE {table}
SET [HighId] = CASE WHEN [High] = @high THEN [HighId] ELSE (
        SELECT TOP (1) [Id] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE [RowVersion] = @high ORDER BY [RowVersion]
    ) END,
    [High] = @high, [Gaps] = [Gaps] + ?, [Messages] = [Messages] + ?, [ChangedAt] = SYSUTCDATETIME()
WHERE [CopyId] = ?;

-- begin_closing: note the gaps that can be closed later
UPDATE {table} SET [ClosingUpTo] = [High], [ClosingSince] = SYSUTCDATETIME() WHERE [CopyId] = ? AND [Gaps] > 0;

-- no_writers: check that no transaction writes to the queue
-- The shared lock on the table is granted only while no transaction holds the intent-exclusive lock that every INSERT
-- and DELETE takes on it (docs/transport/transactions.md, "Numbers and locks of an INSERT"). It ends with the statement,
-- which is its own transaction: one seek that finds no row, because a read of the first row would walk the remains of
-- rows that were deleted. HOLDLOCK makes it a lock also where READ_COMMITTED_SNAPSHOT is on; READCOMMITTEDLOCK is not
-- allowed beside TABLOCK ("Table hints (Transact-SQL)").
SELECT 1 FROM {queue} WITH (TABLOCK, HOLDLOCK{seek}) WHERE [RowVersion] = ?;

-- no_writers_by_scan: check that no transaction writes to the queue
-- As no_writers, for a table without the index: its first row is found sooner than a number that no row has.
SELECT TOP (1) 1 FROM {queue} WITH (TABLOCK, HOLDLOCK);

-- first_in_gaps: check that the gaps of the copy are empty
-- A locking read, as queue.first_left: it stops at a row that is being received, which may come back.
SELECT TOP (1) m.[RowVersion]
FROM {gap} AS g
CROSS APPLY (
    SELECT q.[RowVersion] FROM {queue} AS q WITH (ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE q.[RowVersion] >= g.[Low] AND q.[RowVersion] <= g.[High]
) AS m
WHERE g.[CopyId] = ? AND g.[High] <= ?;

-- close_gaps: delete gaps of the copy
-- Few at a time: from 5,000 locks on the server locks the table, with the gaps of all copies.
DELETE TOP (?) FROM {gap} WHERE [CopyId] = ? AND [High] <= ?;
SELECT @@ROWCOUNT;

-- end_closing: note that gaps were closed
UPDATE {table} SET [Gaps] = [Gaps] - ?, [ClosingUpTo] = NULL, [ClosingSince] = NULL WHERE [CopyId] = ?;

-- count_new: count the messages that the copy does not have
-- The counts end at limits, and read nothing but two narrow indexes: a look-up of rows would keep keys locked (see
-- queue.depth_up_to). The second column counts messages above the watermark among those that expired last.
DECLARE @up_to bigint = ?, @high bigint = ?, @expiring int = ?, @late bigint, @new bigint, @last bigint;
SELECT @late = COUNT_BIG(*)
FROM (
    SELECT TOP (?) m.[RowVersion]
    FROM {gap} AS g
    CROSS APPLY (
        SELECT q.[RowVersion] FROM {queue} AS q WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE q.[RowVersion] >= g.[Low] AND q.[RowVersion] <= CASE WHEN g.[High] < @up_to THEN g.[High] ELSE @up_to END
    ) AS m
    WHERE g.[CopyId] = ?
) AS filled;
SELECT @new = COUNT_BIG(*), @last = MAX(head.[RowVersion])
FROM (
    SELECT TOP (?) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE [RowVersion] > @high AND [RowVersion] <= @up_to ORDER BY [RowVersion]
) AS head;
SELECT @late + @new, COUNT_BIG(CASE WHEN expired.[RowVersion] > @high AND expired.[RowVersion] <= @last THEN 1 END)
FROM (
    SELECT TOP (@expiring) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE [Expires] <= GETUTCDATE() AND @expiring > 0 ORDER BY [Expires] DESC
) AS expired;

-- list: list the copies
SELECT [Name], [Queue], [High], [Gaps], [Messages], [ChangedAt], SYSUTCDATETIME()
FROM {table} WITH (READCOMMITTEDLOCK) ORDER BY [Name], [Queue];
