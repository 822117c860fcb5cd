-- make: create the sent-ledger (with 'sqlqueue create --ledger' an administrator can)
CREATE TABLE {sent} (
    [SendId] uniqueidentifier NOT NULL PRIMARY KEY,
    [Queue] nvarchar(400) NOT NULL,
    [Origin] nvarchar(1000) NOT NULL,
    [Messages] bigint NULL,
    [SentAt] datetime2(3) NOT NULL
);

-- lock: take the application lock of the send
-- The transaction's lock, for as long as the session waits for any: of two sends with the same id, one is entered and the
-- other waits for that one's end. HOLDLOCK would make others wait for as long as the sending takes, in an empty table all
-- of them (docs/transport/transactions.md, "Rows that are not there").
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
SELECT @result;

-- enter: enter the send in the send ledger
INSERT INTO {sent} ([SendId], [Queue], [Origin], [SentAt])
SELECT ?, ?, ?, SYSUTCDATETIME()
WHERE NOT EXISTS (SELECT * FROM {sent} WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE [SendId] = ?);
SELECT @@ROWCOUNT;

-- count: enter the number of messages in the sent-ledger
UPDATE {sent} SET [Messages] = ? WHERE [SendId] = ?;

-- find: read the sent-ledger
SELECT [Queue], [Messages] FROM {sent} WITH (READCOMMITTEDLOCK) WHERE [SendId] = ?;

-- count_older: count old sends
SELECT COUNT_BIG(*) FROM {sent} WHERE [SentAt] < DATEADD(second, ?, SYSUTCDATETIME());

-- forget: forget old sends
DELETE TOP (?) FROM {sent} WHERE [SentAt] < DATEADD(second, ?, SYSUTCDATETIME());
SELECT @@ROWCOUNT;
