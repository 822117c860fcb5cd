-- store: store delayed messages in the table
-- The server's clock decides when a delay is over (docs/transport/queue-tables.md, "Delayed messages").
INSERT INTO {table} ([Headers], [Body], [Due]) VALUES {rows};

-- page: list the delayed messages of the table
-- Ordered by Due alone, which its index serves: a second column would make the server sort the whole table. The page ends
-- after a number of bytes of headers as well: the first row, and each that begins before the limit.
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
-- One scan, of the index on Due, which has all that is asked for.
SELECT COUNT_BIG(*), COUNT_BIG(CASE WHEN [Due] < GETUTCDATE() THEN 1 END)
FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK);

-- count_up_to: count the delayed messages of the table
SELECT COUNT_BIG(*)
FROM (SELECT TOP (?) [Due] FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)) AS waiting;

-- cancel: cancel delayed messages of the table
-- A message that is just being moved is passed over.
DELETE FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [RowVersion] IN ({row_versions});
SELECT @@ROWCOUNT;

-- next_due: find the next message of the table that is due
SELECT {due} FROM (
    SELECT TOP (1) [Due] FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) ORDER BY [Due]
) AS head;

-- lock_mover: take the application lock for moving messages of the table
-- The session's lock, as a move is many transactions; the server lets go of it when the connection breaks.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0;
SELECT @result;

-- release_mover: release the application lock for moving messages of the table
EXEC {catalog}.sys.sp_releaseapplock @Resource = ?, @LockOwner = 'Session';

-- due: find the messages of the table that are due
-- The transport's hints and condition (docs/transport/queue-tables.md, "Delayed messages"). The locks last until the
-- transaction ends. Ordered by Due alone: TOP then stops after its rows, where a sort would read and lock every message
-- that is due. Bytes as for page; rows beyond the limit are locked as well.
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
-- Bodies stay on the server. INSERT and DELETE instead of the transport's OUTPUT INTO, whose target may have no triggers,
-- foreign keys or checks. RowVersion has no index: the range of Due is what makes the rows quick to find. The join hint
-- has the range read once, with a seek in @due for each of its rows; the estimate for a table variable, one row, may make
-- it the other way round. The rows are locked already, by the query due: without UPDLOCK the DELETE keeps no lock of the
-- others that are due at the same moment, of which there may be more than lock escalation needs. They are read for each
-- piece all the same, as nothing says where in the range the rows stand. Empty headers in a row of @due are those of the
-- message itself.
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
