-- lock: take the application lock for creating the queue
-- The name is the one endpoints use, so that their installers and ours wait for each other. The procedure runs in the
-- queue's own database, which makes the lock one and the same for connections from any other.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = ?;
SELECT @result;

-- schema: look for the schema
SELECT COUNT(*) FROM {catalog}.sys.schemas WHERE name = ?;

-- run_there: run a statement in the queue's database
EXEC {catalog}.sys.sp_executesql ?;

-- make_schema: create the schema
CREATE SCHEMA {schema}

-- script_settings: set what a filtered index needs
-- Tools differ in what they set; sqlcmd leaves QUOTED_IDENTIFIER off.
SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;

-- script_schema: create the schema
IF NOT EXISTS (SELECT * FROM {catalog}.sys.schemas WHERE name = {schema})
    EXEC {catalog}.sys.sp_executesql {statement};

-- table: create the table
CREATE TABLE {table} (
    {columns}
);

-- subscription: create the subscription table
CREATE TABLE {table} (
    {columns},
    PRIMARY KEY CLUSTERED ([Endpoint], [Topic])
);

-- row_version_nonclustered: create the index on RowVersion
CREATE NONCLUSTERED INDEX [Index_RowVersion] ON {table} ([RowVersion] ASC){options};

-- row_version_clustered: create the index on RowVersion
CREATE CLUSTERED INDEX [Index_RowVersion] ON {table} ([RowVersion] ASC){options};

-- expires_plain: create the index on Expires
CREATE NONCLUSTERED INDEX [Index_Expires] ON {table} ([Expires] ASC) INCLUDE ([Id], [RowVersion]){options};

-- expires_filtered: create the index on Expires
CREATE NONCLUSTERED INDEX [Index_Expires] ON {table} ([Expires] ASC)
INCLUDE ([Id], [RowVersion]) WHERE [Expires] IS NOT NULL{options};

-- due: create the index on Due
CREATE NONCLUSTERED INDEX [Index_Due] ON {table} ([Due] ASC){options};

-- lock_whole: lock the table
-- Waits for every transaction that has locked a row, and returns whether one is left.
SELECT TOP (1) 1 FROM {table} WITH (TABLOCKX, HOLDLOCK);

-- count_whole: count the messages of the table
SELECT COUNT_BIG(*) FROM {table};

-- drop: drop the table
DROP TABLE {table};
