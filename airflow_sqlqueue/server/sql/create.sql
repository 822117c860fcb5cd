-- lock: take the application lock for creating the table
-- Endpoints use the same name, so that their installers and this package wait for each other. The procedure runs in the
-- queue's own database, so that connections from other databases use the same lock.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = ?;
SELECT @result;

-- schema: find the schema
SELECT name FROM {catalog}.sys.schemas WHERE name = ?;

-- run_there: run a statement in the queue's database
EXEC {catalog}.sys.sp_executesql ?;

-- make_schema: create the schema
CREATE SCHEMA {schema}

-- script_settings: set the options that a filtered index needs
-- Tools have different defaults; sqlcmd leaves QUOTED_IDENTIFIER off.
SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;

-- script_schema: create the schema
IF NOT EXISTS (SELECT * FROM {catalog}.sys.schemas WHERE name = {schema})
    EXEC {catalog}.sys.sp_executesql {statement};

-- table: create the table
CREATE TABLE {table} (
    {columns}
);

-- add_column: add the columns that the table lacks
IF COL_LENGTH({own_table}, {column}) IS NULL ALTER TABLE {table} ADD {definition};

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
-- The statement waits for every transaction that has locked a row. Its result has a row if the table has one.
SELECT TOP (1) 1 FROM {table} WITH (TABLOCKX, HOLDLOCK);

-- count_whole: count the messages of the table
SELECT COUNT_BIG(*) FROM {table};

-- drop: drop the table
DROP TABLE {table};
