-- settings: prepare the connection
-- The filtered index on Expires needs these options on every writer; the isolation level is set because READPAST depends
-- on it (docs/transport/queue-tables.md, "Purging"; docs/transport/transactions.md, "Isolation and READPAST"). They go
-- before each transaction: an open connection runs many, and a caller's own statement may have changed them.
SET NOCOUNT, XACT_ABORT, QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT, IMPLICIT_TRANSACTIONS OFF;
SET ROWCOUNT 0;
SET TEXTSIZE -1;
SET LOCK_TIMEOUT {milliseconds};
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

-- product: read the server's edition and version
SELECT CAST(SERVERPROPERTY('EngineEdition') AS int), CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128));

-- moment: return a parameter
SELECT CAST(? AS datetime2(6));

-- in_transaction: check the transaction
IF @@TRANCOUNT = 0 THROW 50002, N'The transaction is gone.', 1;

-- unlimited: lift limits of rows and of the bytes of a value
SET ROWCOUNT 0;
SET TEXTSIZE -1;

-- lock_timeout: set the lock timeout
SET LOCK_TIMEOUT {milliseconds};

-- low_priority: lower the deadlock priority
SET DEADLOCK_PRIORITY LOW;

-- normal_priority: restore the deadlock priority
SET DEADLOCK_PRIORITY NORMAL;

-- begin: begin a transaction
BEGIN TRANSACTION;

-- commit: commit the transaction
-- If a caller's own statement has begun another transaction and not ended it, COMMIT commits nothing and gives no error
-- (docs/transport/transactions.md, "Transactions that end in silence").
IF @@TRANCOUNT > 1 THROW 50003, N'A transaction was left open.', 1;
COMMIT TRANSACTION;

-- rollback: roll back the transaction
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;

-- savepoint: set a savepoint
SAVE TRANSACTION [sqlqueue];

-- roll_back_to_savepoint: roll back to the savepoint
-- The server may keep or release locks taken since the savepoint, so later statements read the rows again.
ROLLBACK TRANSACTION [sqlqueue];

-- ping: reach the server
SELECT 1;
