-- make: create the table of messages to be sent (with 'sqlqueue create <queue> --ledger' an administrator can)
-- RowVersion is the position in the attempt: a table of staged messages has the columns of every queue.
CREATE TABLE {table} (
    [AttemptId] uniqueidentifier NOT NULL,
    [StagedAt] datetime2(3) NOT NULL,
    {columns}
);

-- index: create the index of the table of messages to be sent
CREATE CLUSTERED INDEX [Index_Attempt] ON {table} ([AttemptId] ASC, [RowVersion] ASC);

-- stage: stage messages to be sent
DECLARE @attempt uniqueidentifier = ?, @after bigint = ?;
INSERT INTO {table} ([AttemptId], [StagedAt], [RowVersion], {columns})
SELECT @attempt, SYSUTCDATETIME(), @after + 1 + m.[Position], {values} FROM (VALUES {rows}) AS m ({names});

-- publish: send staged messages to the queue
-- ORDER BY makes the identity follow the order of the messages, as in queue.send.
INSERT INTO {queue} ({columns})
SELECT {values} FROM {table} WITH (READCOMMITTEDLOCK, ROWLOCK)
WHERE [AttemptId] = ? AND [RowVersion] > ? AND [RowVersion] <= ? ORDER BY [RowVersion];
SELECT @@ROWCOUNT;

-- remove: remove messages that were staged to be sent
DELETE TOP (?) FROM {table} WITH (ROWLOCK) WHERE [AttemptId] = ?;
SELECT @@ROWCOUNT;

-- count_older: count messages of unfinished sends
SELECT COUNT_BIG(*) FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE [StagedAt] < DATEADD(second, ?, SYSUTCDATETIME());

-- remove_older: remove messages of unfinished sends
-- This needs no index: the table has only the messages of running sends and is usually empty.
DELETE TOP (?) FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE [StagedAt] < DATEADD(second, ?, SYSUTCDATETIME());
SELECT @@ROWCOUNT;
