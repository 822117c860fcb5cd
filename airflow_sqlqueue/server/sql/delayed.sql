-- store: store delayed messages in the table
-- The server's clock decides when a delay is over (docs/transport/queue-tables.md, "Delayed messages").
INSERT INTO {table} ([Headers], [Body], [Due]) VALUES {rows};

-- page: list the delayed messages of the table
-- The order is by Due alone, which its index serves: with a second column the server would sort the whole table. A
-- number of bytes of headers limits the page as well: it has the first row, and each row that begins before the limit.
SELECT [RowVersion], {due}, {headers}, [Bytes]
FROM (
    SELECT *, SUM([Bytes]) OVER (ORDER BY [Due] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) [RowVersion], [Due], [Headers], DATALENGTH([Headers]) AS [Bytes]
        FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Due] >= {since} ORDER BY [Due]
    ) AS first
) AS sized
WHERE [BytesBefore] < ?;

-- count: count the delayed messages of the table
-- One scan of the index on Due, which has every column of this query.
SELECT COUNT_BIG(*), COUNT_BIG(CASE WHEN [Due] < GETUTCDATE() THEN 1 END)
FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK);

-- count_up_to: count the delayed messages of the table
SELECT COUNT_BIG(*)
FROM (SELECT TOP (?) [Due] FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)) AS waiting;

-- cancel: cancel delayed messages of the table
-- A message that another transaction is moving is skipped.
DELETE FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [RowVersion] IN ({row_versions});
SELECT @@ROWCOUNT;

-- next_due: find the next message of the table that is due
SELECT {due} FROM (
    SELECT TOP (1) [Due] FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) ORDER BY [Due]
) AS head;

-- lock_mover: take the application lock for moving messages of the table
-- The session owns the lock, because a move is many transactions; the server releases it when the connection breaks.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0;
SELECT @result;

-- release_mover: release the application lock for moving messages of the table
EXEC {catalog}.sys.sp_releaseapplock @Resource = ?, @LockOwner = 'Session';

-- due: find the messages of the table that are due
-- The hints and the condition are the transport's (docs/transport/queue-tables.md, "Delayed messages"). The locks last
-- until the transaction ends. The order is by Due alone, so that TOP stops after its rows: a sort would read and lock
-- every due message. Bytes are limited as in page; rows beyond the limit are locked as well.
SELECT [RowVersion], {due}, {headers}, [Bytes]
FROM (
    SELECT *, SUM([Bytes]) OVER (ORDER BY [Due] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) [RowVersion], [Due], [Headers], DATALENGTH([Headers]) AS [Bytes]
        FROM {table} WITH (UPDLOCK, READPAST, ROWLOCK)
        WHERE [Due] < GETUTCDATE() AND [Due] >= {since} ORDER BY [Due]
    ) AS first
) AS sized
WHERE [BytesBefore] < ?;

-- move: move due messages of the table to the queue
-- Bodies stay on the server. INSERT and DELETE replace the transport's OUTPUT INTO, whose target must not have
-- triggers, foreign keys or checks. RowVersion has no index, so the range of Due finds the rows quickly. With the join
-- hint the server reads the range once and seeks in @due for each of its rows; without it the estimate for a table
-- variable, one row, may reverse this order. The query due has locked the rows already. Without UPDLOCK the DELETE
-- keeps no locks of other messages that are due at the same moment, whose number may be large enough for lock
-- escalation. Each piece reads them nevertheless, because the positions of its rows in the range are not known. Empty
-- headers in a row of @due mean the headers of the message itself.
DECLARE @due TABLE (
    [RowVersion] bigint NOT NULL PRIMARY KEY, [Headers] nvarchar(max) NOT NULL,
    {addressed}
);
INSERT INTO @due VALUES {rows};
DECLARE @inserted int;
INSERT INTO {queue} ({columns})
SELECT {values}
FROM {table} AS d WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
INNER LOOP JOIN @due AS m ON m.[RowVersion] = d.[RowVersion]
WHERE d.[Due] BETWEEN {since} AND {until}
ORDER BY d.[Due], d.[RowVersion];
SET @inserted = @@ROWCOUNT;
DELETE d
FROM {table} AS d WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
INNER LOOP JOIN @due AS m ON m.[RowVersion] = d.[RowVersion]
WHERE d.[Due] BETWEEN {since} AND {until};
SELECT @inserted, @@ROWCOUNT;
