-- make: create the inbox (with 'sqlqueue create <queue> --ledger' an administrator can)
CREATE TABLE {table} (
    [MessageKey] uniqueidentifier NOT NULL PRIMARY KEY NONCLUSTERED,
    [Queue] nvarchar(400) NOT NULL,
    [MessageId] nvarchar(200) NOT NULL,
    [HandledAt] datetime2(3) NOT NULL
);

-- index: create the index of the inbox
CREATE CLUSTERED INDEX [Index_HandledAt] ON {table} ([Queue] ASC, [HandledAt] ASC);

-- enter: enter a message in the inbox
-- The transaction owns the lock, which makes another handler of the same id wait for its end. Without it both could
-- find no row, and the error of the second INSERT would roll its handler back. Other ids never wait for each other
-- (docs/transport/transactions.md, "Rows that are not there").
DECLARE @key uniqueidentifier = ?, @result int;
EXEC @result = {catalog}.sys.sp_getapplock @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
INSERT INTO {table} ([MessageKey], [Queue], [MessageId], [HandledAt])
SELECT @key, ?, ?, SYSUTCDATETIME()
WHERE @result >= 0
    AND NOT EXISTS (SELECT * FROM {table} WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE [MessageKey] = @key);
SELECT @result, @@ROWCOUNT;

-- leave: remove a message from the inbox
DELETE FROM {table} WHERE [MessageKey] = ?;

-- forget: forget old messages in the inbox
-- READPAST: two consumers of a queue may do this at the same time.
DELETE TOP (?) FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE [Queue] = ? AND [HandledAt] < DATEADD(second, ?, SYSUTCDATETIME());
SELECT @@ROWCOUNT;
