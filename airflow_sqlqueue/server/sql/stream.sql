-- make: create the table of streams (with 'sqlqueue create <queue> --ledger' an administrator can)
CREATE TABLE {table} (
    [Name] nvarchar(200) NOT NULL PRIMARY KEY,
    [Queue] nvarchar(400) NOT NULL,
    [Generation] uniqueidentifier NOT NULL,
    [Done] bigint NOT NULL,
    [ChangedAt] datetime2(3) NOT NULL
);

-- enter: enter the stream
INSERT INTO {table} ([Name], [Queue], [Generation], [Done], [ChangedAt])
SELECT ?, ?, ?, 0, SYSUTCDATETIME()
WHERE NOT EXISTS (SELECT * FROM {table} WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE [Name] = ?);

-- find: read the stream
SELECT [Name], [Queue], [Generation], [Done] FROM {table} WITH (READCOMMITTEDLOCK) WHERE [Name] = ?;

-- list: list the streams
SELECT [Name], [Queue], [Done], [ChangedAt], SYSUTCDATETIME() FROM {table} WITH (READCOMMITTEDLOCK) ORDER BY [Name];

-- forget: forget the stream
DELETE FROM {table} WHERE [Name] = ? AND [Generation] = ?;

-- advance: note what the stream has done
UPDATE {table} SET [Done] = ?, [ChangedAt] = SYSUTCDATETIME() WHERE [Name] = ? AND [Generation] = ? AND [Done] = ?;
SELECT @@ROWCOUNT;
