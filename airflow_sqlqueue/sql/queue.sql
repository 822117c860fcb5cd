-- send: send messages to the queue
-- The server's clock decides when a message expires: days and milliseconds apart, because DATEADD takes an int.
-- (reference/statements.md 2.5)
INSERT INTO {queue} ({columns}) VALUES {rows};

-- receive: receive messages from the queue
-- ORDER BY needs the inner TOP, so the DELETE goes through a common table expression (reference/statements.md 2.4).
{declare}WITH head AS (
    SELECT TOP (?) {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY [RowVersion]
)
DELETE FROM head
OUTPUT {output};

-- take: take messages out of the queue
{declare}WITH head AS (
    SELECT {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK) WHERE [RowVersion] IN ({row_versions})
)
DELETE FROM head
OUTPUT {output};

-- take_head: take messages out of the queue
-- The same, up to a high-water mark, which makes a drain of a busy queue end.
{declare}WITH head AS (
    SELECT TOP (?) {names} FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK)
    WHERE [RowVersion] > ? AND [RowVersion] <= ? ORDER BY [RowVersion]
)
DELETE FROM head
OUTPUT {output};

-- peek: look at the queue
-- READCOMMITTEDLOCK is what READPAST needs where READ_COMMITTED_SNAPSHOT is on (reference/statements.md 2.6).
SELECT TOP (?) {columns}
FROM {queue} WITH (READPAST, READCOMMITTEDLOCK) ORDER BY [RowVersion];

-- depth: count the messages of the queue
SELECT COUNT_BIG(*), COUNT_BIG(CASE WHEN [Expires] <= GETUTCDATE() THEN 1 END)
FROM {queue} WITH (READPAST, READCOMMITTEDLOCK);

-- depth_up_to: count the messages of the queue
-- Bounded: a poll that only needs to know whether a threshold is reached must not scan a queue of millions.
SELECT COUNT_BIG(*), COUNT_BIG(CASE WHEN head.[Expires] <= GETUTCDATE() THEN 1 END)
FROM (SELECT TOP (?) [Expires] FROM {queue} WITH (READPAST, READCOMMITTEDLOCK) ORDER BY [RowVersion]) AS head;

-- high_water: find the end of the queue
SELECT MAX([RowVersion]) FROM {queue} WITH (READPAST, READCOMMITTEDLOCK);

-- first_left: check that the queue is drained
-- A locking read: it stops at a row that somebody else is receiving, which READPAST steps over and NOLOCK may not see
-- (a row that is deleted and not committed is a ghost). Its lock timeout is the time to wait.
SELECT TOP (1) [RowVersion] FROM {queue} WITH (READCOMMITTEDLOCK) WHERE [RowVersion] <= ? ORDER BY [RowVersion];

-- count_left: count the messages that others hold
SELECT COUNT_BIG(*) FROM {queue} WITH (NOLOCK) WHERE [RowVersion] <= ?;

-- purge_expired: purge expired messages
-- READPAST stands on the deleting statement itself, so a long receive never blocks it (reference/statements.md 2.7).
DELETE TOP (?) FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [Expires] < GETUTCDATE();
SELECT @@ROWCOUNT;

-- count_expired: count the expired messages
SELECT COUNT_BIG(*) FROM {queue} WITH (READPAST, READCOMMITTEDLOCK) WHERE [Expires] < GETUTCDATE();
