-- make_batch: create the ledger's batch table (with 'sqlqueue create <queue> --ledger' an administrator can)
CREATE TABLE {table} (
    [BatchId] uniqueidentifier NOT NULL PRIMARY KEY,
    [Queue] nvarchar(400) NOT NULL,
    [Origin] nvarchar(1000) NOT NULL,
    [Owner] uniqueidentifier NULL,
    [State] varchar(10) NOT NULL,
    [Stage] varchar(10) NOT NULL DEFAULT 'files',
    [UpTo] bigint NULL,
    [Filter] nvarchar(max) NULL,
    [Kept] bit NOT NULL DEFAULT 0,
    [OpenedAt] datetime2(3) NOT NULL,
    [SealedAt] datetime2(3) NULL,
    [ConsumedAt] datetime2(3) NULL,
    [RequeuedAt] datetime2(3) NULL,
    [Parts] int NULL,
    [Messages] bigint NULL,
    [Expired] bigint NULL,
    [Quarantined] bigint NULL,
    [Bytes] bigint NULL,
    [Redacted] varchar(64) NULL,
    [Erased] bigint NULL,
    [Folder] varchar(50) NULL
);

-- make_part: create the ledger's part table (with 'sqlqueue create <queue> --ledger' an administrator can)
CREATE TABLE {table} (
    [PartId] uniqueidentifier NOT NULL PRIMARY KEY NONCLUSTERED,
    [BatchId] uniqueidentifier NOT NULL,
    [Path] nvarchar(1000) NULL,
    [Messages] int NOT NULL,
    [Expired] int NOT NULL,
    [Quarantined] int NOT NULL DEFAULT 0,
    [Bytes] bigint NOT NULL,
    [MinRowVersion] bigint NOT NULL,
    [MaxRowVersion] bigint NOT NULL,
    [Worker] nvarchar(200) NOT NULL,
    [CommittedAt] datetime2(3) NOT NULL
);

-- index_part: create the ledger's part index
CREATE CLUSTERED INDEX [Index_Batch] ON {table} ([BatchId] ASC, [MinRowVersion] ASC);

-- index_owner: create the ledger's batch index
CREATE INDEX [Index_Owner] ON {table} ([Owner] ASC);

-- lock_open: take the application lock for opening the batch
-- The transaction owns the lock and waits for it up to the session's lock timeout: of two tasks with the same batch id,
-- one makes the row and the other finds it. With HOLDLOCK a task that opens another batch would wait if its id were in
-- the same gap (docs/transport/transactions.md, "Rows that are not there").
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
SELECT @result;

-- open: open the batch
INSERT INTO {batch} ([BatchId], [Queue], [Origin], [Owner], [State], [Stage], [UpTo], [Filter], [Kept], [Redacted],
                     [Folder], [OpenedAt])
SELECT ?, ?, ?, CAST(NULLIF(?, N'') AS uniqueidentifier), 'open', ?, CAST(NULLIF(?, N'') AS bigint), NULLIF(?, N''), ?,
       NULLIF(?, N''), ?, SYSUTCDATETIME()
WHERE NOT EXISTS (SELECT * FROM {batch} WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE [BatchId] = ?);

-- find: read the batch
SELECT [Queue], [Origin], [State], [Stage], [UpTo], [Parts], [Messages], [Expired], [Quarantined], [Bytes],
       DATEDIFF(second, [OpenedAt], SYSUTCDATETIME()), [Filter], [Kept], [Redacted],
       COALESCE([Erased], 0)
FROM {batch} WITH (READCOMMITTEDLOCK) WHERE [BatchId] = ?;

-- folder: read the name of the batch's folder
SELECT COALESCE([Folder], LOWER(CAST([BatchId] AS char(36)))) FROM {batch} WITH (READCOMMITTEDLOCK) WHERE [BatchId] = ?;

-- commit_part: commit the part
-- The last round trip of a part's transaction, so that no pause of the client comes between the ledger row and COMMIT.
-- The shared lock on the batch row is held to the end, so that a seal waits for the part or excludes it
-- (docs/design.md, "A part is one transaction" and "The seal"). An empty path means NULL: for a parameter None the
-- driver asks the server for the types, which cannot be deduced here (docs/transport/transactions.md, "Transactions
-- that end in silence"). XACT_ABORT must be ON: without it a COMMIT or ROLLBACK in a statement with parameters is
-- carried out and then fails with error 266. A trigger may have begun another transaction: see session.commit.
IF @@TRANCOUNT > 1 THROW 50003, N'A transaction was left open.', 1;
INSERT INTO {part} ([PartId], [BatchId], [Path], [Messages], [Expired], [Quarantined], [Bytes],
                    [MinRowVersion], [MaxRowVersion], [Worker], [CommittedAt])
SELECT ?, b.[BatchId], NULLIF(?, N''), ?, ?, ?, ?, ?, ?, ?, SYSUTCDATETIME()
FROM {batch} AS b WITH (REPEATABLEREAD, ROWLOCK)
WHERE b.[BatchId] = ? AND b.[State] = 'open';
IF @@ROWCOUNT <> 1
BEGIN
    ROLLBACK TRANSACTION;
    THROW 50001, N'The batch is not open.', 1;
END;
COMMIT TRANSACTION;

-- lock_copy: take the application lock for copying into the batch
-- The transaction owns the lock: each part of a copy begins at the end of the last one, even of an earlier try.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
SELECT @result;

-- copied_up_to: read how far the batch has copied
SELECT MAX([MaxRowVersion]) FROM {part} WITH (READCOMMITTEDLOCK) WHERE [BatchId] = ?;

-- lock_window: take the application lock of a window of the batch
-- The session owns the lock: the server releases it when the connection is gone and its last statement has ended.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = ?;
SELECT @result;

-- lock_batch: take the application lock of the batch
-- The session owns the lock: the server releases it when the connection is gone, as after a kill of its process.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = ?;
SELECT @result;

-- release_batch: release the application lock of the batch
EXEC {catalog}.sys.sp_releaseapplock @Resource = ?, @LockOwner = 'Session';

-- unfinished: find the unfinished batches of the task
-- READPAST: another session is sealing a batch with a locked row, marking it consumed or putting it back.
SELECT [BatchId] FROM {batch} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE [Owner] = ? AND [State] IN ('open', 'sealed') ORDER BY [OpenedAt], [BatchId];

-- seal: seal the batch
-- The statement waits, up to the lock timeout, for parts in their last round trip; after it no part can be added.
UPDATE {batch} SET [State] = 'sealed', [SealedAt] = SYSUTCDATETIME() WHERE [BatchId] = ? AND [State] = 'open';

-- total: add up the parts of the batch
-- The figures are frozen at the seal, so that they reveal a ledger that was restored to an earlier state.
UPDATE b SET [Parts] = p.[Parts], [Messages] = p.[Messages], [Expired] = p.[Expired],
             [Quarantined] = p.[Quarantined], [Bytes] = p.[Bytes]
FROM {batch} AS b
CROSS JOIN (
    SELECT COUNT(*) AS [Parts], COALESCE(SUM(CAST([Messages] AS bigint)), 0) AS [Messages],
           COALESCE(SUM(CAST([Expired] AS bigint)), 0) AS [Expired],
           COALESCE(SUM(CAST([Quarantined] AS bigint)), 0) AS [Quarantined], COALESCE(SUM([Bytes]), 0) AS [Bytes]
    FROM {part} WITH (READCOMMITTEDLOCK) WHERE [BatchId] = ?
) AS p
WHERE b.[BatchId] = ? AND b.[State] = 'sealed' AND b.[Parts] IS NULL;

-- parts: list the parts of the batch
SELECT [PartId], [Path], [Messages], [Expired], [Bytes], [MinRowVersion], [MaxRowVersion], [Quarantined]
FROM {part} WITH (READCOMMITTEDLOCK) WHERE [BatchId] = ? ORDER BY [MinRowVersion], [PartId];

-- erase: subtract erased messages from the batch
UPDATE {batch} SET [Messages] = [Messages] - ?, [Bytes] = [Bytes] - ?, [Erased] = COALESCE([Erased], 0) + ?
WHERE [BatchId] = ? AND [State] = ? AND [Messages] = ?;
SELECT @@ROWCOUNT;

-- replace_part: replace a part of the batch
UPDATE {part} SET [PartId] = ?, [Path] = NULLIF(?, N''), [Messages] = ?, [Bytes] = ?
WHERE [BatchId] = ? AND [PartId] = ? AND [Messages] = ?;
SELECT @@ROWCOUNT;

-- mark_consumed: mark the batch consumed
UPDATE {batch} SET [State] = 'consumed', [ConsumedAt] = SYSUTCDATETIME()
WHERE [BatchId] = ? AND [State] = 'sealed' AND [Parts] = ? AND [Messages] = ?;
SELECT @@ROWCOUNT;

-- list: list the batches
-- A batch that is being put back is left out: its row stays locked meanwhile, and without READ_COMMITTED_SNAPSHOT the
-- whole list would wait for it. The parts with messages are counted; for an open batch, which has no frozen figures
-- yet, the other figures are added up too.
SELECT b.[BatchId], b.[Queue], b.[Origin], b.[State], b.[Stage], b.[Kept], b.[Redacted], COALESCE(b.[Erased], 0),
       b.[OpenedAt], b.[SealedAt], b.[ConsumedAt], b.[RequeuedAt],
       p.[Parts], COALESCE(b.[Messages], p.[Messages]), COALESCE(b.[Expired], p.[Expired]),
       COALESCE(b.[Quarantined], p.[Quarantined]), COALESCE(b.[Bytes], p.[Bytes]), SYSUTCDATETIME()
FROM {batch} AS b{passing}
OUTER APPLY (
    SELECT COUNT(NULLIF([Messages], 0)) AS [Parts], COALESCE(SUM(CAST([Messages] AS bigint)), 0) AS [Messages],
           COALESCE(SUM(CAST([Expired] AS bigint)), 0) AS [Expired],
           COALESCE(SUM(CAST([Quarantined] AS bigint)), 0) AS [Quarantined], COALESCE(SUM([Bytes]), 0) AS [Bytes]
    FROM {part}{passing} WHERE [BatchId] = b.[BatchId]
) AS p
WHERE {where}
ORDER BY b.[OpenedAt], b.[BatchId];

-- unfinished_by_state: count the unfinished batches
-- READPAST: as for a list.
SELECT b.[State], COUNT(*), DATEDIFF_BIG(second, MIN(COALESCE(b.[SealedAt], b.[OpenedAt])), SYSUTCDATETIME())
FROM {batch} AS b WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
WHERE b.[State] IN ('open', 'sealed') GROUP BY b.[State];

-- beginning: find the batches of the ledger by the beginning of an id
-- It waits for rows that others have locked, because a batch that it did not see could be the one that is meant.
SELECT TOP (6) [BatchId] FROM {batch} WITH (READCOMMITTEDLOCK)
WHERE LEFT(UPPER(CAST([BatchId] AS char(36))), ?) = ? ORDER BY [BatchId];

-- newest: list the newest batches
SELECT TOP (?) n.[BatchId] FROM {batch} AS n WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
ORDER BY n.[OpenedAt] DESC, n.[BatchId]

-- ids: list the ids of all batches
-- NOLOCK: it has those too that the list leaves out.
SELECT [BatchId] FROM {batch} WITH (NOLOCK);

-- requeue: mark the batch requeued
-- The first statement of the transaction that sends the rows: another requeue, or marking as consumed, waits for its
-- end. UPDLOCK makes the statement wait for a running seal. With optimized locking and READ_COMMITTED_SNAPSHOT the
-- server otherwise checks the condition on the last committed version, and would skip a batch that is being sealed as
-- open (docs/transport/transactions.md, "Isolation and READPAST").
UPDATE b SET [State] = 'requeued', [RequeuedAt] = SYSUTCDATETIME()
FROM {batch} AS b WITH (UPDLOCK, ROWLOCK)
WHERE b.[BatchId] = ? AND b.[State] = 'sealed';
SELECT @@ROWCOUNT;

-- forget_parts: forget the parts of the batch
DELETE TOP (?) FROM {part} WHERE [BatchId] = ?;
SELECT @@ROWCOUNT;

-- forget_empty: forget the batch, which holds nothing
-- The batch is sealed, so no part can be added to it.
DELETE FROM {batch}
WHERE [BatchId] = ? AND [State] = 'sealed' AND NOT EXISTS (SELECT 1 FROM {part} WHERE [BatchId] = ?);
SELECT @@ROWCOUNT;

-- forget_batch: forget the batch
DELETE FROM {batch} WHERE [BatchId] = ? AND [State] IN ('consumed', 'requeued');
SELECT @@ROWCOUNT;
