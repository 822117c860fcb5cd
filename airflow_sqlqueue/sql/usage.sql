-- make_queues: create the table of the growth of queues (with 'sqlqueue create --ledger' an administrator can)
CREATE TABLE {table} (
    [Queue] nvarchar(400) NOT NULL,
    [Day] date NOT NULL,
    [Messages] bigint NOT NULL,
    [Inserted] bigint NOT NULL,
    [RecordedAt] datetime2(3) NOT NULL,
    PRIMARY KEY CLUSTERED ([Queue] ASC, [Day] ASC)
);

-- make_endpoints: create the table of the usage of endpoints (with 'sqlqueue create --ledger' an administrator can)
CREATE TABLE {table} (
    [BatchId] uniqueidentifier NOT NULL,
    [Number] int NOT NULL,
    [Day] date NOT NULL,
    [Endpoint] nvarchar(400) NOT NULL,
    [MessageType] nvarchar(400) NOT NULL,
    [Messages] bigint NOT NULL,
    [Failed] bigint NOT NULL,
    PRIMARY KEY CLUSTERED ([BatchId] ASC, [Number] ASC)
);

-- index_endpoints: create the index of the usage of endpoints
CREATE INDEX [Index_Day] ON {table} ([Day] ASC);

-- lock: take the application lock of the usage
-- The transaction owns the lock: two records of the same growth come one after the other, and the second one finds none.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
SELECT @result;

-- now: read the server's clock
SELECT SYSUTCDATETIME();

-- last: read the last record of each queue
SELECT q.[Queue], q.[Inserted], q.[RecordedAt] FROM {table} AS q
WHERE NOT EXISTS (SELECT * FROM {table} AS later WHERE later.[Queue] = q.[Queue] AND later.[Day] > q.[Day]);

-- add: record the growth of the queue on a day
DECLARE @queue nvarchar(400) = ?, @day date = ?, @messages bigint = ?, @inserted bigint = ?, @at datetime2(3) = ?;
INSERT INTO {table} ([Queue], [Day], [Messages], [Inserted], [RecordedAt])
SELECT @queue, @day, 0, 0, @at
WHERE NOT EXISTS (SELECT * FROM {table} WHERE [Queue] = @queue AND [Day] = @day);
UPDATE {table} SET [Messages] = [Messages] + @messages, [Inserted] = @inserted, [RecordedAt] = @at
WHERE [Queue] = @queue AND [Day] = @day;

-- queue_days: read the growth of queues
SELECT [Queue], [Day], [Messages] FROM {table} WITH (READCOMMITTEDLOCK)
WHERE [Day] >= ? AND [Day] <= ? ORDER BY [Queue], [Day];

-- forget: forget the usage of the batch
DELETE FROM {table} WHERE [BatchId] = ?;

-- enter: record the usage of the batch
INSERT INTO {table} ([BatchId], [Number], [Day], [Endpoint], [MessageType], [Messages], [Failed]) VALUES {rows};

-- endpoint_days: read the usage of endpoints
SELECT [Endpoint], [MessageType], [Day], SUM([Messages]), SUM([Failed]) FROM {table} WITH (READCOMMITTEDLOCK)
WHERE [Day] >= ? AND [Day] <= ? GROUP BY [Endpoint], [MessageType], [Day] ORDER BY [Endpoint], [MessageType], [Day];

-- remove_queue_days: forget old growth of queues
DELETE FROM {table} WHERE [Day] < ?;

-- remove_endpoint_days: forget old usage of endpoints
DELETE FROM {table} WHERE [Day] < ?;
