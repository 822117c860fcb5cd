-- make: create the table of streaming consumers (with 'sqlqueue create --ledger' an administrator can)
CREATE TABLE {consumer} (
    [Name] nvarchar(200) NOT NULL PRIMARY KEY,
    [Queue] nvarchar(400) NOT NULL,
    [Generation] uniqueidentifier NOT NULL,
    [Done] bigint NOT NULL,
    [ChangedAt] datetime2(3) NOT NULL
);

-- enter: enter the streaming consumer
INSERT INTO {consumer} ([Name], [Queue], [Generation], [Done], [ChangedAt])
SELECT ?, ?, ?, 0, SYSUTCDATETIME()
WHERE NOT EXISTS (SELECT * FROM {consumer} WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE [Name] = ?);

-- find: read the streaming consumer
SELECT [Queue], [Generation], [Done] FROM {consumer} WITH (READCOMMITTEDLOCK) WHERE [Name] = ?;

-- list: list the streaming consumers
SELECT [Name], [Queue], [Done], [ChangedAt], SYSUTCDATETIME() FROM {consumer} WITH (READCOMMITTEDLOCK) ORDER BY [Name];

-- forget: forget the streaming consumer
DELETE FROM {consumer} WHERE [Name] = ? AND [Generation] = ?;

-- advance: note what the streaming consumer has done
UPDATE {consumer} SET [Done] = ?, [ChangedAt] = SYSUTCDATETIME() WHERE [Name] = ? AND [Generation] = ? AND [Done] = ?;
SELECT @@ROWCOUNT;
