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
    [ChangedAt] datetime2(3) NOT NULL
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
-- A table that was dropped and made again has another id, and after a TRUNCATE or a reseed its last value is lower.
SELECT t.object_id, t.create_date, CAST(i.last_value AS bigint),
       c.[TableId], c.[High], c.[Gaps], c.[ClosingUpTo], DATEDIFF_BIG(second, c.[ClosingSince], SYSUTCDATETIME())
FROM {tables}.sys.tables AS t
LEFT JOIN {tables}.sys.identity_columns AS i ON i.object_id = t.object_id
LEFT JOIN {table} AS c ON c.[CopyId] = ?
WHERE t.object_id = OBJECT_ID(?);

-- enter: enter the copy
INSERT INTO {table} ([CopyId], [Name], [Queue], [TableId], [High], [Gaps], [Messages], [ChangedAt])
VALUES (?, ?, ?, ?, ?, 0, 0, SYSUTCDATETIME());

-- forget_gaps: forget the gaps of the copy
DELETE FROM {gap} WHERE [CopyId] = ?;

-- forget: forget the copy
DELETE FROM {table} WHERE [CopyId] = ?;
SELECT @@ROWCOUNT;

-- in_gaps: find messages in the gaps of the copy
-- Each gap is a seek in the index on RowVersion, which returns no more than numbers. A locked row is skipped: its number
-- stays in its gap.
SELECT TOP (?) m.[RowVersion], g.[Low], g.[High]
FROM {gap} AS g
CROSS APPLY (
    SELECT [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE [RowVersion] >= g.[Low] AND [RowVersion] <= g.[High]
) AS m
WHERE g.[CopyId] = ? AND m.[RowVersion] <= ? ORDER BY g.[Low], m.[RowVersion];

-- drop_gaps: replace gaps of the copy
DELETE FROM {gap} WHERE [CopyId] = ? AND [Low] IN ({lows});

-- add_gaps: enter gaps of the copy
-- DISTINCT, because a list of values is padded to one of a few sizes.
DECLARE @copy uniqueidentifier = ?;
INSERT INTO {gap} ([CopyId], [Low], [High])
SELECT DISTINCT @copy, v.[Low], v.[High] FROM (VALUES {rows}) AS v ([Low], [High]);

-- advance: note what the copy has copied
UPDATE {table} SET [High] = ?, [Gaps] = [Gaps] + ?, [Messages] = [Messages] + ?, [ChangedAt] = SYSUTCDATETIME()
WHERE [CopyId] = ?;

-- begin_closing: note the gaps that can be closed later
UPDATE {table} SET [ClosingUpTo] = [High], [ClosingSince] = SYSUTCDATETIME() WHERE [CopyId] = ? AND [Gaps] > 0;

-- no_writers: check that no transaction writes to the queue
-- The shared lock on the table is granted only while no transaction holds the intent-exclusive lock that every INSERT
-- and DELETE takes on it (docs/transport/transactions.md, "Numbers and locks of an INSERT"). It ends with the statement,
-- which reads one row, and with a lock timeout of 0 no other session waits behind it.
SELECT TOP (1) 1 FROM {queue} WITH (TABLOCK, READCOMMITTEDLOCK);

-- first_in_gaps: check that the gaps of the copy are empty
-- A locking read, as queue.first_left: it stops at a row that is being received, which may come back.
SELECT TOP (1) m.[RowVersion]
FROM {gap} AS g
CROSS APPLY (
    SELECT [RowVersion] FROM {queue} WITH (ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE [RowVersion] >= g.[Low] AND [RowVersion] <= g.[High]
) AS m
WHERE g.[CopyId] = ? AND g.[High] <= ?;

-- close_gaps: close gaps of the copy
DECLARE @copy uniqueidentifier = ?, @closed int;
DELETE FROM {gap} WHERE [CopyId] = @copy AND [High] <= ?;
SET @closed = @@ROWCOUNT;
UPDATE {table} SET [Gaps] = [Gaps] - @closed, [ClosingUpTo] = NULL, [ClosingSince] = NULL WHERE [CopyId] = @copy;
SELECT @closed;

-- count_new: count the messages that the copy does not have
-- The counts end at a limit, because a wait for new messages repeats them often.
SELECT COUNT_BIG(*), COUNT_BIG(CASE WHEN head.[Expires] <= GETUTCDATE() THEN 1 END)
FROM (
    SELECT TOP (?) m.[Expires]
    FROM {gap} AS g
    CROSS APPLY (
        SELECT [RowVersion], [Expires] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE [RowVersion] >= g.[Low] AND [RowVersion] <= g.[High]
    ) AS m
    WHERE g.[CopyId] = ? AND m.[RowVersion] <= ?
    UNION ALL
    SELECT n.[Expires]
    FROM (
        SELECT TOP (?) [Expires] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE [RowVersion] > ? AND [RowVersion] <= ? ORDER BY [RowVersion]
    ) AS n
) AS head;

-- list: list the copies
SELECT [Name], [Queue], [High], [Gaps], [Messages], [ChangedAt], SYSUTCDATETIME()
FROM {table} WITH (READCOMMITTEDLOCK) ORDER BY [Name], [Queue];
