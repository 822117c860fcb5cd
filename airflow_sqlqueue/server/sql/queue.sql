-- send: send messages to the queue
-- The server's clock decides when a message expires. Days and milliseconds are added separately, because DATEADD takes
-- an int (docs/transport/queue-tables.md, "Sending"). ORDER BY makes the identity follow the order of the messages:
-- this is documented only for an INSERT of a SELECT with ORDER BY ("INSERT (Transact-SQL)", Limitations and
-- restrictions).
INSERT INTO {queue} ({columns})
SELECT {values} FROM (VALUES {rows}) AS m ({names}) ORDER BY m.[Position];

-- send_numbered: send messages to the queue
-- A table variable is needed, because a table with a trigger on INSERT allows no OUTPUT without INTO (error 334), and
-- because OUTPUT has no order.
DECLARE @sent TABLE ([RowVersion] bigint NOT NULL);
INSERT INTO {queue} ({columns})
OUTPUT inserted.[RowVersion] INTO @sent
SELECT {values} FROM (VALUES {rows}) AS m ({names}) ORDER BY m.[Position];
SELECT [RowVersion] FROM @sent ORDER BY [RowVersion];

-- try_send: send to the queue
-- The server checks the permission before it looks for rows, of which there are none.
INSERT INTO {queue} ([Headers]) SELECT N'' WHERE 1 = 0;

-- receive: receive messages from the queue
-- ORDER BY needs the inner TOP, so the DELETE uses a common table expression (docs/transport/queue-tables.md,
-- "Receiving"). The last hint is FORCESEEK with the index on RowVersion, if there is one: for a small table the
-- optimizer may prefer a scan and a sort, which lock every row that they read. A seek needs a condition: after an
-- anchor it has a parameter, because the server would keep a plan for each number in a text. From the head every row
-- fulfils it, because identities begin at 1; it has no parameter then, so BEGIN can go in the same round trip. The CAST
-- is needed because a literal of that size is a numeric, and the server would convert the column to it. On a partitioned
-- table the server seeks in each partition and sorts or merges the results, so that TOP locks more rows than it takes.
-- No version of the transport makes such a table.
{declare}WITH head AS (
    SELECT TOP ({limit}) {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
    WHERE [RowVersion] > CAST({after} AS bigint) ORDER BY [RowVersion]
)
DELETE FROM head
OUTPUT {output};

-- take: take messages out of the queue
-- A seek here as well: a scan would lock rows in another order than receivers do, and might keep the locks of other
-- rows that it has read (docs/transport/transactions.md, "Purges beside receivers").
{declare}WITH head AS (
    SELECT {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek}) WHERE [RowVersion] IN ({row_versions})
)
DELETE FROM head
OUTPUT {output};

-- hold: lock messages of the queue
-- Their bodies stay on the server. The transaction keeps the locks until it ends, also of the rows beyond the limit of
-- bytes, as in delete_first_rows.
SELECT {columns}
FROM (
    SELECT *, SUM([Bytes]) OVER (ORDER BY [RowVersion] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) {names}, {size} AS [Bytes] FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
        WHERE [RowVersion] >= ? ORDER BY [RowVersion]
    ) AS first
) AS sized
WHERE [BytesBefore] < ? ORDER BY [RowVersion];

-- delete_first_rows: take messages out of the queue
-- The same, up to a high-water mark, without which a drain of a busy queue would not end, and up to a number of bytes,
-- which limits the memory of the client: the result has the first row, and each row that begins before the limit. Rows
-- with bodies over another limit are skipped, for take_large. DATALENGTH reads no bodies, and the server computes a
-- frame that ends at the current row as a running sum. Skipped rows, and the rows beyond the limit of bytes, keep an
-- update lock to the end of the transaction. These are at most TOP rows, fewer than lock escalation needs, except after
-- thousands of successive bodies that are too large. The caller rolls back rows that it cannot keep to the savepoint,
-- which is set here to save a round trip.
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
-- A table variable is needed, because OUTPUT INTO allows no triggers and no foreign keys on its target, and has no
-- order.
DECLARE @taken TABLE ({staged});
WITH head AS (
    SELECT TOP (?) {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
    WHERE {window} ORDER BY [RowVersion]
)
DELETE FROM head
OUTPUT {deleted}
INTO @taken;
INSERT INTO {target} ({columns})
SELECT {values} FROM @taken ORDER BY [RowVersion];
SELECT COUNT(*), MAX([RowVersion]) FROM @taken;

-- transfer: move messages of the queue to another one
-- As forward; bodies, and headers that are not replaced, do not leave the server.
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
-- The transaction keeps the row locked and unchanged until its body is read and the row deleted.
SELECT TOP (1) [RowVersion], [Id], CAST(CASE WHEN [Expires] <= GETUTCDATE() THEN 1 ELSE 0 END AS bit)
FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek})
WHERE {window} AND DATALENGTH([Body]) > ? ORDER BY [RowVersion];

-- read_body: read a piece of a message's body
-- This transaction has locked the row already. READPAST: without an index it would wait for rows that others hold.
SELECT SUBSTRING([Body], ?, ?) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek}) WHERE [RowVersion] = ? AND [Id] = ?;

-- read_heads: read a message's headers and the size of its body
-- This transaction has locked the row already, as for read_body.
SELECT [Headers], DATALENGTH([Body]) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek}) WHERE [RowVersion] = ? AND [Id] = ?;

-- take_large: take a message with a large body out of the queue
-- The body is read before, so the result does not contain it.
{declare}WITH head AS (
    SELECT {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK{seek}) WHERE [RowVersion] = ? AND [Id] = ?
)
DELETE FROM head
OUTPUT {output};

-- mean_bytes: read the mean size of messages in the queue
SELECT AVG([Bytes])
FROM (
    SELECT TOP (?) CAST(DATALENGTH([Headers]) + COALESCE(DATALENGTH([Body]), 0) AS bigint) AS [Bytes]
    FROM {queue} WITH (NOLOCK{seek}) WHERE [RowVersion] <= ? ORDER BY [RowVersion]
) AS head;

-- window_end: find the end of a window of the queue
-- NOLOCK, because an error of some rows does not matter here: windows only keep workers apart.
SELECT MAX(head.[RowVersion])
FROM (
    SELECT TOP (?) [RowVersion] FROM {queue} WITH (NOLOCK{seek})
    WHERE [RowVersion] > ? AND [RowVersion] <= ? ORDER BY [RowVersion]
) AS head;

-- peek: peek at the queue
-- READPAST needs READCOMMITTEDLOCK if READ_COMMITTED_SNAPSHOT is on (docs/transport/queue-tables.md, "Queue length"),
-- and ROWLOCK if it reads many rows: it skips locked rows but waits for locked pages (docs/transport/transactions.md,
-- "Isolation and READPAST").
SELECT TOP (?) {columns}
FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
WHERE {window} ORDER BY [RowVersion];

-- search: search messages of the queue
-- No index has the headers, so the server reads them row by row. READPAST, READCOMMITTEDLOCK and ROWLOCK are as in
-- peek. These locks end with the statement at the latest, while UPDLOCK would keep them to the end of the transaction.
-- So another statement takes the found rows, by their RowVersions. From some 25 rows on, the server reads headers ahead
-- of the keys of the index on RowVersion, and keeps those keys locked until the end (docs/transport/transactions.md,
-- "Readers beside receivers"): a receiver that has locked one of the rows waits as long. Hence the limit of rows, well
-- below the number of locks that escalates. Without READPAST the statement waits at a row that others have locked,
-- because the row may match after their rollback; a receiver that waits for a key while it has locked such a row is a
-- deadlock. The page ends after a number of bytes, as in delete_first_rows.
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

-- peek_page: peek at the queue
-- The result has the requested columns, up to a number of bytes as in delete_first_rows: the first row, and each row that
-- begins before the limit. Other columns do not count. The locks are shared: receivers do not skip these rows, and may
-- wait for the end of the statement, as in search.
SELECT {columns}
FROM (
    SELECT *, SUM([Bytes]) OVER (ORDER BY [RowVersion] ROWS UNBOUNDED PRECEDING) - [Bytes] AS [BytesBefore]
    FROM (
        SELECT TOP (?) {names}, {size} AS [Bytes]
        FROM {queue} WITH ({readpast}ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE {window} ORDER BY [RowVersion]
    ) AS first
) AS sized
WHERE [BytesBefore] < ? ORDER BY [RowVersion];

-- find_ids: find messages in the queue
-- No version has an index on Id: this reads the whole table, without keeping a lock.
SELECT [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Id] IN ({ids}) ORDER BY [RowVersion];

-- depth: count the messages of the queue
-- One scan, for a table without an index on Expires or with one that has every row.
SELECT COUNT_BIG(*), COUNT_BIG(CASE WHEN [Expires] <= GETUTCDATE() THEN 1 END)
FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK);

-- depth_by_indexes: count the messages of the queue
-- If the index on Expires is filtered, no index has every row with its Expires. One count of both would read the whole
-- table with its headers, while each of two counts reads a narrow index. The count of expired rows comes second, so it
-- may include rows that the first count did not have.
DECLARE @messages bigint;
SELECT @messages = COUNT_BIG(*) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK);
SELECT @messages, COUNT_BIG(*) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE [Expires] <= GETUTCDATE();

-- depth_up_to: count the messages of the queue
-- The count is limited: a poll that compares with a threshold must not scan a queue of millions. Expires is only in the
-- table's rows, so the server looks up the row of each message and keeps the keys of thousands locked to the end (see
-- search). This is for a table without a filtered index on Expires, and for more expired messages than the limit.
SELECT COUNT_BIG(*), COUNT_BIG(CASE WHEN head.[Expires] <= GETUTCDATE() THEN 1 END)
FROM (
    SELECT TOP (?) [Expires] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE [RowVersion] > ? ORDER BY [RowVersion]
) AS head;

-- depth_up_to_by_indexes: count the messages of the queue
-- As depth_by_indexes: two counts by narrow indexes, without look-ups and lasting locks. The second one counts the
-- messages that expired first; the last column has their number. If that is the limit, other expired messages may be
-- among the first rows of the queue, and the second column is not valid: a complete count would have no limit in a
-- queue without purges.
DECLARE @messages bigint, @last bigint;
SELECT @messages = COUNT_BIG(*), @last = MAX(head.[RowVersion])
FROM (
    SELECT TOP (?) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
    WHERE [RowVersion] > ? ORDER BY [RowVersion]
) AS head;
SELECT @messages, COUNT_BIG(CASE WHEN expired.[RowVersion] > ? AND expired.[RowVersion] <= @last THEN 1 END), COUNT_BIG(*)
FROM (
    SELECT TOP (?) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
    WHERE [Expires] <= GETUTCDATE() ORDER BY [Expires]
) AS expired;

-- expired_up_to: count the expired messages of the queue
-- The count is limited and uses the index on Expires, if there is one, because a wait for a purge repeats it often.
SELECT COUNT_BIG(*)
FROM (
    SELECT TOP (?) [Expires] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Expires] < GETUTCDATE()
) AS expired;

-- ends: find both ends of the queue
-- Two subqueries, so that each is one seek in the index on RowVersion.
SELECT (SELECT TOP (1) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE [RowVersion] >= ? ORDER BY [RowVersion]),
       (SELECT TOP (1) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
        WHERE [RowVersion] >= ? ORDER BY [RowVersion] DESC);

-- oldest: find the oldest message of the queue
SELECT TOP (1) {headers}, SYSUTCDATETIME() FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
WHERE [RowVersion] >= ? AND ([Expires] IS NULL OR [Expires] > GETUTCDATE()) ORDER BY [RowVersion];

-- newest: find the newest message of the queue
SELECT TOP (1) {headers}, SYSUTCDATETIME() FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
WHERE [RowVersion] >= ? AND ([Expires] IS NULL OR [Expires] > GETUTCDATE()) ORDER BY [RowVersion] DESC;

-- high_water: find the end of the queue
SELECT TOP (1) [RowVersion] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
WHERE [RowVersion] >= ? ORDER BY [RowVersion] DESC;

-- first_left: check that the queue is drained
-- A locking read: it waits at a row that is being received, which READPAST skips and NOLOCK may not see (a row that is
-- deleted and not committed is a ghost). The lock timeout limits the wait.
SELECT TOP (1) [RowVersion] FROM {queue} WITH (READCOMMITTEDLOCK{seek}) WHERE [RowVersion] <= ? ORDER BY [RowVersion];

-- count_left: count the messages that others hold
SELECT COUNT_BIG(*) FROM {queue} WITH (NOLOCK) WHERE [RowVersion] <= ?;

-- purge_expired: purge expired messages of the queue
-- The purge locks the key of Expires before the row, and a receiver does so after it. The two can deadlock, so the
-- purge runs with a low deadlock priority (docs/transport/transactions.md, "Purges beside receivers"). READPAST is on
-- the deleting statement itself, so a long receive never blocks it (docs/transport/queue-tables.md, "Purging").
DELETE TOP (?) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Expires] < GETUTCDATE();
SELECT @@ROWCOUNT;

-- purge_range: purge the queue
-- Each chunk begins at the end of the last one: deleted rows leave ghosts in the index for a while, and a chunk that
-- began at its head would skip all of them again. NOLOCK finds the end of the chunk: an error of some rows does not
-- matter there, and the statement would otherwise take locks twice.
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
-- A common table expression is needed, because the hints of a DELETE's own target cannot name an index.
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

-- other_receivers: find other receivers of the queue
-- Receivers keep their connections, and the server knows the last text of each connection. A connection that only reads
-- the queue, as for monitoring, deletes nothing.
SELECT DISTINCT s.program_name, s.host_name
FROM sys.dm_exec_connections AS c
JOIN sys.dm_exec_sessions AS s ON s.session_id = c.session_id
CROSS APPLY sys.dm_exec_sql_text(c.most_recent_sql_handle) AS q
WHERE s.session_id <> @@SPID AND s.program_name NOT IN (APP_NAME(), ?)
  AND CHARINDEX('DELETE', q.text) > 0 AND CHARINDEX(?, q.text) > 0;
