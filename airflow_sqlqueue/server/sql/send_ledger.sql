-- make: create the sent-ledger (with 'sqlqueue create <queue> --ledger' an administrator can)
CREATE TABLE {table} (
    [SendId] uniqueidentifier NOT NULL PRIMARY KEY,
    [Queue] nvarchar(400) NOT NULL,
    [Origin] nvarchar(1000) NOT NULL,
    [Messages] bigint NULL,
    [SentAt] datetime2(3) NOT NULL,
    [MessageId] uniqueidentifier NULL
);

-- lock: take the application lock of the send
-- The transaction owns the lock and waits for it up to the session's lock timeout: of two sends with the same id, one
-- is entered and the other waits for its end. With HOLDLOCK other sends would wait for this one, in an empty table all
-- of them (docs/transport/transactions.md, "Rows that are not there").
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
SELECT @result;

-- enter: enter the send in the send ledger
-- An empty text means no message id: for NULL the driver would ask the server for the type, and an error of that ends
-- the transaction.
INSERT INTO {table} ([SendId], [Queue], [Origin], [MessageId], [SentAt])
SELECT ?, ?, ?, CAST(NULLIF(?, N'') AS uniqueidentifier), SYSUTCDATETIME()
WHERE NOT EXISTS (SELECT * FROM {table} WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE [SendId] = ?);
SELECT @@ROWCOUNT;

-- count: enter the number of messages in the sent-ledger
UPDATE {table} SET [Messages] = ? WHERE [SendId] = ?;

-- find: read the sent-ledger
SELECT [Queue], [Messages], [MessageId] FROM {table} WITH (READCOMMITTEDLOCK) WHERE [SendId] = ?;

-- count_older: count old sends
-- READPAST: no index has SentAt, so the server reads every row, and the row of a running send is locked until its end.
SELECT COUNT_BIG(*) FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE [SentAt] < DATEADD(second, ?, SYSUTCDATETIME());

-- forget: forget old sends
DELETE TOP (?) FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE [SentAt] < DATEADD(second, ?, SYSUTCDATETIME());
SELECT @@ROWCOUNT;
