-- The two roles of airflow-sqlqueue. Run it in the database that holds the queues, as a member of db_owner; it can be
-- run again. Queues in another schema than dbo, or a ledger in another than sqlqueue: change the names.
--
--   sqlqueue_installer   creates, fixes and drops tables: sqlqueue create, inspect --fix, drop
--   sqlqueue_runtime     everything else: send, receive, depth, peek, drain, purge, return, archive, inspect
--
-- Then give each to the user of a login:  ALTER ROLE [sqlqueue_runtime] ADD MEMBER [airflow];

IF SCHEMA_ID(N'sqlqueue') IS NULL EXEC (N'CREATE SCHEMA [sqlqueue]');
GO

IF DATABASE_PRINCIPAL_ID(N'sqlqueue_installer') IS NULL CREATE ROLE [sqlqueue_installer];
IF DATABASE_PRINCIPAL_ID(N'sqlqueue_runtime') IS NULL CREATE ROLE [sqlqueue_runtime];
GO

-- ALTER on the schema goes with CREATE TABLE; SELECT counts the messages that a drop would lose.
GRANT CREATE TABLE TO [sqlqueue_installer];
GRANT VIEW DEFINITION TO [sqlqueue_installer];
GRANT ALTER, SELECT ON SCHEMA::[dbo] TO [sqlqueue_installer];
GRANT ALTER ON SCHEMA::[sqlqueue] TO [sqlqueue_installer];
GO

-- An administrator makes the ledger, the inbox and the archive once (sqlqueue create --ledger); drains, consumers and
-- sqlqueue archive read and write them.
ALTER ROLE [db_datareader] ADD MEMBER [sqlqueue_runtime];
ALTER ROLE [db_datawriter] ADD MEMBER [sqlqueue_runtime];
GO

-- For inspect, and work on failed messages, to see who else consumes a queue, in master:  GRANT VIEW SERVER STATE TO [the login];
-- in Azure SQL Database, where that cannot be granted:       GRANT VIEW DATABASE STATE TO [the user];
-- For inspect, to read the pages of large tables:            GRANT VIEW DATABASE STATE TO [the user];
-- For inspect --fix system-versioned:                        GRANT CONTROL ON the table and its history table
