-- send: send messages to the queue
-- The server's clock decides when a message expires. Days and milliseconds are added apart: DATEADD takes an int
-- (docs/transport/queue-tables.md, "Sending"). ORDER BY is what makes the identity follow the order of the messages: of
-- all forms of INSERT, only that of a SELECT with ORDER BY is documented to ("INSERT (Transact-SQL)", Limitations and
-- restrictions).
INSERT INTO {queue} ({columns})
SELECT {values} FROM (VALUES {rows}) AS m ({names}) ORDER BY m.[Position];

-- send_numbered: send messages to the queue
-- By way of a table variable, because a table with a trigger on INSERT allows no OUTPUT without INTO (error 334), and
-- because OUTPUT has no order of its own.
DECLARE @sent TABLE ([RowVersion] bigint NOT NULL);
INSERT INTO {queue} ({columns})
OUTPUT inserted.[RowVersion] INTO @sent
SELECT {values} FROM (VALUES {rows}) AS m ({names}) ORDER BY m.[Position];
SELECT [RowVersion] FROM @sent ORDER BY [RowVersion];

-- receive: receive messages from the queue
-- ORDER BY needs the inner TOP, so the DELETE goes through a common table expression (docs/transport/queue-tables.md,
-- "Receiving"). The last hint is FORCESEEK with the index on RowVersion, where there is one: for a small table the
-- optimizer may prefer a scan and a sort, which locks every row that it meets. A seek wants a condition, here one that
-- every row fulfils, as identities begin at 1; the CAST, because a literal of that size is a numeric, to which the column
-- would be converted. On a partitioned table each partition is sought in and the results are sorted or merged: TOP then
-- locks more rows than it takes. No version of the transport makes such a table. Without parameters BEGIN can go in the
-- same round trip.
{declare}WITH head AS (
    SELECT TOP ({limit}) {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
    WHERE [RowVersion] > CAST(-9223372036854775808 AS bigint) ORDER BY [RowVersion]
)
DELETE FROM head
OUTPUT {output};

-- take: take messages out of the queue
-- A seek here as well: a scan would lock rows in another order than receivers do, and might keep the locks of rows that
-- it only met (docs/transport/transactions.md, "Purges beside receivers").
{declare}WITH head AS (
    SELECT {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek}) WHERE [RowVersion] IN ({row_versions})
)
DELETE FROM head
OUTPUT {output};

-- hold: lock messages of the queue
-- Their bodies stay where they are. What is locked is the transaction's until it ends, with the rows beyond the limit of
-- bytes, as take_head has it.
SELECT {columns}
FROM (
    SELECT *, SUM([Bytes]) OVER (ORDER BY [RowVersion] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) {names}, {size} AS [Bytes] FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
        WHERE [RowVersion] >= ? ORDER BY [RowVersion]
    ) AS first
) AS sized
WHERE [BytesBefore] < ? ORDER BY [RowVersion];

-- take_head: take messages out of the queue
-- The same, up to a high-water mark, which makes a drain of a busy queue end, and up to a number of bytes, which bounds
-- the memory of the client: the first row, and each that begins before the limit. Bodies over another limit are
-- passed over, for take_large. DATALENGTH reads no bodies, and a frame that ends at the current row is what the server
-- adds up as it goes. Rows that are passed over keep an update lock to the end of the transaction, and so do those beyond
-- the limit of bytes, at most TOP of them: fewer than lock escalation needs, unless thousands of bodies in a row are too
-- large to be taken at once. What the caller cannot keep it rolls back to the savepoint, which stands here to save a
-- round trip.
SAVE TRANSACTION [sqlqueue];
{declare}WITH sized AS (
    SELECT {names}, SUM([Bytes]) OVER (ORDER BY [RowVersion] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) {names}, COALESCE(DATALENGTH([Headers]), 0) + COALESCE(DATALENGTH([Body]), 0) AS [Bytes]
        FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
        WHERE {window} AND COALESCE(DATALENGTH([Body]), 0) <= ? ORDER BY [RowVersion]
    ) AS first
),
head AS (SELECT * FROM sized WHERE [BytesBefore] < ?)
DELETE FROM head
OUTPUT {output};

-- forward: move messages of the queue to another one
-- By way of a table variable, because OUTPUT INTO allows neither triggers nor foreign keys on its target, and because it
-- has no order.
DECLARE @taken TABLE ({staged});
WITH head AS (
    SELECT TOP (?) {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
    WHERE [RowVersion] > ? AND [RowVersion] <= ? ORDER BY [RowVersion]
)
DELETE FROM head
OUTPUT {deleted}
INTO @taken;
INSERT INTO {target} ({columns})
SELECT {values} FROM @taken ORDER BY [RowVersion];
SELECT COUNT(*), MAX([RowVersion]) FROM @taken;

-- transfer: move messages of the queue to another one
-- As forward; bodies, and headers for which no others are given, do not leave the server.
DECLARE @given TABLE (
    [RowVersion] bigint NOT NULL PRIMARY KEY, [Headers] nvarchar(max) NOT NULL,
    {addressed}
);
INSERT INTO @given VALUES {rows};
DECLARE @taken TABLE ({staged});
WITH head AS (
    SELECT {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek}) WHERE [RowVersion] IN ({row_versions})
)
DELETE FROM head
OUTPUT {deleted}
INTO @taken;
INSERT INTO {target} ({columns})
SELECT {values} FROM @taken AS t JOIN @given AS g ON g.[RowVersion] = t.[RowVersion] ORDER BY t.[RowVersion];
SELECT COUNT(*) FROM @taken;

-- lock_these: lock messages of the queue
SELECT {columns} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
WHERE [RowVersion] IN ({row_versions}) ORDER BY [RowVersion];

-- lock_large: find a message of the queue with a large body
-- What is locked stays as it is, and the transaction's, until its body is read and the row deleted.
SELECT TOP (1) [RowVersion], [Id], CAST(CASE WHEN [Expires] <= GETUTCDATE() THEN 1 ELSE 0 END AS bit)
FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
WHERE {window} AND DATALENGTH([Body]) > ? ORDER BY [RowVersion];

-- read_body: read a piece of a message's body
-- Its row is locked by this transaction already. Without an index those that others hold would be waited for.
SELECT SUBSTRING([Body], ?, ?) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek}) WHERE [RowVersion] = ? AND [Id] = ?;

-- take_large: take a message with a large body out of the queue
-- Its body is read before: the row goes without it.
{declare}WITH head AS (
    SELECT {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek}) WHERE [RowVersion] = ? AND [Id] = ?
)
DELETE FROM head
OUTPUT {output};

-- mean_bytes: look at the size of messages in the queue
SELECT AVG([Bytes])
FROM (
    SELECT TOP (?) CAST(DATALENGTH([Headers]) + COALESCE(DATALENGTH([Body]), 0) AS bigint) AS [Bytes]
    FROM {queue} WITH (NOLOCK{seek}) WHERE [RowVersion] <= ? ORDER BY [RowVersion]
) AS head;

-- window_end: find the end of a window of the queue
-- NOLOCK, because a row more or less does not matter here: windows keep workers out of each other's way, no more.
SELECT MAX(head.[RowVersion])
FROM (
    SELECT TOP (?) [RowVersion] FROM {queue} WITH (NOLOCK{seek})
    WHERE [RowVersion] > ? AND [RowVersion] <= ? ORDER BY [RowVersion]
) AS head;

-- peek: look at the queue
-- READCOMMITTEDLOCK is what READPAST needs where READ_COMMITTED_SNAPSHOT is on (docs/transport/queue-tables.md, "Queue
-- length"), and ROWLOCK what it needs wherever many rows are read: it steps over locked rows, and waits for locked pages
-- (docs/transport/transactions.md, "Isolation and READPAST").
SELECT TOP (?) {columns}
FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
WHERE [RowVersion] > ? AND [RowVersion] <= ? ORDER BY [RowVersion];

-- search: look for messages of the queue
-- Where no index can help, headers are read row by row. READPAST, READCOMMITTEDLOCK and ROWLOCK as for peek: locks are over
-- with the statement at the latest, where UPDLOCK would keep them to the end of the transaction. So what is found is taken
-- by a statement of its own, by its RowVersion. From some 25 rows on, headers are fetched ahead of the keys of the index
-- on RowVersion, and those keys stay locked until all is read (docs/transport/transactions.md, "Readers beside receivers"):
-- a receiver that has one of them waits for so long. Hence the stretch, well below the locks that escalate. Without
-- READPAST it stops at a row that others have locked, which may match once they roll back; a receiver that waits for a key
-- while it has such a row is a deadlock. The page ends after a number of bytes, as take_head has it.
SELECT {columns}
FROM (
    SELECT *, SUM([Bytes]) OVER (ORDER BY [RowVersion] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) {names}, {size} AS [Bytes]
        FROM {queue} WITH ({readpast}ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE {window} AND {may_match} ORDER BY [RowVersion]
    ) AS first
) AS sized
WHERE [BytesBefore] < ? ORDER BY [RowVersion];

-- copy_body: copy a piece of a message's body
SELECT SUBSTRING([Body], ?, ?) FROM {queue} WITH ({readpast}ROWLOCK, READCOMMITTEDLOCK{seek}) WHERE [RowVersion] = ? AND [Id] = ?;

-- peek_page: look at the queue
-- The columns that are asked for, up to a number of bytes, as take_head has it: the first row, and each that begins
-- before the limit. What is not read is not counted. Shared locks: receivers pass over no row of it, and may wait for its
-- end, as with search.
SELECT {columns}
FROM (
    SELECT *, SUM([Bytes]) OVER (ORDER BY [RowVersion] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) {names}, {size} AS [Bytes]
        FROM {queue} WITH ({readpast}ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE [RowVersion] > ? AND [RowVersion] <= ? ORDER BY [RowVersion]
    ) AS first
) AS sized
WHERE [BytesBefore] < ? ORDER BY [RowVersion];

-- find_ids: look for messages in the queue
-- No version has an index on Id: this reads the whole table, and takes no lock that it keeps.
SELECT [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Id] IN ({ids}) ORDER BY [RowVersion];

-- depth: count the messages of the queue
-- One scan: for a table whose index on Expires is missing, or holds every row.
SELECT COUNT_BIG(*), COUNT_BIG(CASE WHEN [Expires] <= GETUTCDATE() THEN 1 END)
FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK);

-- depth_by_indexes: count the messages of the queue
-- Where the index on Expires is filtered no index has every row and its Expires: one count of both would read the whole
-- table with its headers, of two counts each reads a narrow index. The one of expired rows comes after the other, so it
-- may have rows that the first one did not.
DECLARE @messages bigint;
SELECT @messages = COUNT_BIG(*) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK);
SELECT @messages, COUNT_BIG(*) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE [Expires] <= GETUTCDATE();

-- depth_up_to: count the messages of the queue
-- Bounded: a poll that only needs to know whether a threshold is reached must not scan a queue of millions. Expires is in
-- the table's rows, so each message costs a look-up there, and the keys of thousands stay locked to the end (see search):
-- for a table without a filtered index on Expires, and where more messages have expired than are counted.
SELECT COUNT_BIG(*), COUNT_BIG(CASE WHEN head.[Expires] <= GETUTCDATE() THEN 1 END)
FROM (
    SELECT TOP (?) [Expires] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE [RowVersion] >= ? ORDER BY [RowVersion]
) AS head;

-- depth_up_to_by_indexes: count the messages of the queue
-- As depth_by_indexes: two counts by narrow indexes, which look nothing up and keep no lock. The second is of those that
-- expired first; the last column says of how many. Where that is as many as were asked for, others may be among the first
-- rows of the queue, and the second column says nothing: to count on would have no bound where nobody purges them.
DECLARE @messages bigint, @last bigint;
SELECT @messages = COUNT_BIG(*), @last = MAX(head.[RowVersion])
FROM (
    SELECT TOP (?) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE [RowVersion] >= ? ORDER BY [RowVersion]
) AS head;
SELECT @messages, COUNT_BIG(CASE WHEN expired.[RowVersion] <= @last THEN 1 END), COUNT_BIG(*)
FROM (
    SELECT TOP (?) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE [Expires] <= GETUTCDATE() ORDER BY [Expires]
) AS expired;

-- expired_up_to: count the expired messages of the queue
-- Bounded, and by the index on Expires, where the table has it: what a wait for a purge asks again and again.
SELECT COUNT_BIG(*)
FROM (
    SELECT TOP (?) [Expires] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Expires] < GETUTCDATE()
) AS expired;

-- ends: find both ends of the queue
-- Two subqueries, so that each is one step into the index on RowVersion.
SELECT (SELECT TOP (1) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE [RowVersion] >= ? ORDER BY [RowVersion]),
       (SELECT TOP (1) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE [RowVersion] >= ? ORDER BY [RowVersion] DESC);

-- oldest: look for the oldest message of the queue
SELECT TOP (1) {headers}, SYSUTCDATETIME() FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
WHERE [RowVersion] >= ? AND ([Expires] IS NULL OR [Expires] > GETUTCDATE()) ORDER BY [RowVersion];

-- high_water: find the end of the queue
SELECT TOP (1) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
WHERE [RowVersion] >= ? ORDER BY [RowVersion] DESC;

-- first_left: check that the queue is drained
-- A locking read: it stops at a row that is being received, which READPAST steps over and NOLOCK may not see
-- (a row that is deleted and not committed is a ghost). Its lock timeout is the time to wait.
SELECT TOP (1) [RowVersion] FROM {queue} WITH (READCOMMITTEDLOCK{seek}) WHERE [RowVersion] <= ? ORDER BY [RowVersion];

-- count_left: count the messages that others hold
SELECT COUNT_BIG(*) FROM {queue} WITH (NOLOCK) WHERE [RowVersion] <= ?;

-- purge_expired: purge expired messages of the queue
-- It locks the key of Expires before the row, a receiver after it, so the two can deadlock: it runs with a low deadlock
-- priority (docs/transport/transactions.md, "Purges beside receivers"). READPAST stands on the deleting statement itself,
-- so a long receive never blocks it (docs/transport/queue-tables.md, "Purging").
DELETE TOP (?) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Expires] < GETUTCDATE();
SELECT @@ROWCOUNT;

-- purge_range: purge the queue
-- Each chunk begins where the last one ended: rows that are deleted leave ghosts in the index for a while, and a chunk
-- that began at its head would step over all of them again. NOLOCK finds the end of the chunk: a row more or less does
-- not matter there, and locks would be taken twice.
DECLARE @after bigint = ?, @to bigint;
SELECT @to = MAX(head.[RowVersion])
FROM (
    SELECT TOP (?) [RowVersion] FROM {queue} WITH (NOLOCK{seek})
    WHERE [RowVersion] > @after AND [RowVersion] <= ? ORDER BY [RowVersion]
) AS head;
WITH chunk AS (
    SELECT TOP (?) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE [RowVersion] > @after AND [RowVersion] <= @to ORDER BY [RowVersion]
)
DELETE FROM chunk;
SELECT @@ROWCOUNT, @to;

-- purge_these: purge messages of the queue
-- Through a common table expression, because the hints of a DELETE's own target cannot name an index.
WITH chunk AS (
    SELECT [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE [RowVersion] IN ({row_versions})
)
DELETE FROM chunk;
SELECT @@ROWCOUNT;

-- count_expired: count the expired messages of the queue
SELECT COUNT_BIG(*) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Expires] < GETUTCDATE();

-- first_expired_left: check that no expired message is left in the queue
-- A locking read, like first_left.
SELECT TOP (1) [RowVersion] FROM {queue} WITH (READCOMMITTEDLOCK) WHERE [Expires] < GETUTCDATE();

-- count_expired_left: count the expired messages that others hold
SELECT COUNT_BIG(*) FROM {queue} WITH (NOLOCK) WHERE [Expires] < GETUTCDATE();

-- count_up_to: count the messages of the queue
SELECT COUNT_BIG(*) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [RowVersion] <= ?;

-- now: read the server's clock
SELECT SYSUTCDATETIME();

-- other_receivers: look for others that receive from the queue
-- Receivers keep their connections, and the text that one has sent last stays with it. What only looks at the queue, as
-- monitoring does, deletes nothing.
SELECT DISTINCT s.program_name, s.host_name
FROM sys.dm_exec_connections AS c
JOIN sys.dm_exec_sessions AS s ON s.session_id = c.session_id
CROSS APPLY sys.dm_exec_sql_text(c.most_recent_sql_handle) AS q
WHERE s.session_id <> @@SPID AND s.program_name NOT IN (APP_NAME(), ?)
  AND CHARINDEX('DELETE', q.text) > 0 AND CHARINDEX(?, q.text) > 0;
