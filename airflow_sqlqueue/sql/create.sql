-- lock: take the application lock for creating the queue
-- The name is the one endpoints use, so that their installers and ours wait for each other. The procedure runs in the
-- queue's own database, which makes the lock one and the same for connections from any other.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = ?;
SELECT @result;

-- object: look for the table
SELECT OBJECT_ID(?);

-- schema: look for the schema
SELECT COUNT(*) FROM {catalog}.sys.schemas WHERE name = ?;

-- database: look for the database
SELECT DB_ID(?);

-- run_there: run a statement in the queue's database
EXEC {catalog}.sys.sp_executesql ?;

-- make_schema: create the schema
CREATE SCHEMA {schema}

-- queue: create the queue table
-- The shape of versions 5.0.3, 6.0.1 and later (reference/statements.md 2.2).
CREATE TABLE {queue} (
    [Id] uniqueidentifier NOT NULL,
    [CorrelationId] varchar(255) NULL,
    [ReplyToAddress] varchar(255) NULL,
    [Recoverable] bit NOT NULL,
    [Expires] datetime NULL,
    [Headers] nvarchar(max) NOT NULL,
    [Body] varbinary(max) NULL,
    [RowVersion] bigint IDENTITY(1, 1) NOT NULL
);

-- index_row_version: create the index on RowVersion
CREATE NONCLUSTERED INDEX [Index_RowVersion] ON {queue} ([RowVersion] ASC);

-- index_row_version_clustered: create the index on RowVersion
CREATE CLUSTERED INDEX [Index_RowVersion] ON {queue} ([RowVersion] ASC);

-- index_expires: create the index on Expires
CREATE NONCLUSTERED INDEX [Index_Expires] ON {queue} ([Expires] ASC)
INCLUDE ([Id], [RowVersion]) WHERE [Expires] IS NOT NULL;

-- columns: read the table's columns
SELECT c.name, TYPE_NAME(c.system_type_id), c.is_nullable, c.is_computed, c.is_identity
FROM {catalog}.sys.columns AS c WHERE c.object_id = OBJECT_ID(?) ORDER BY c.column_id;
