"""The statements of the transport, by the first of its versions that has them."""

from __future__ import annotations

SAVE_NOCOUNT = "DECLARE @saved varchar(3) = 'OFF'; IF ((512 & @@OPTIONS) = 512) SET @saved = 'ON'; SET NOCOUNT ON;"
RESTORE_NOCOUNT = "IF (@saved = 'ON') SET NOCOUNT ON; IF (@saved = 'OFF') SET NOCOUNT OFF;"

SEND = """
INSERT INTO {0} (Id, CorrelationId, ReplyToAddress, Recoverable, Expires, Headers, Body)
VALUES (@Id, @CorrelationId, @ReplyToAddress, 1,
        CASE WHEN @Ttbr IS NOT NULL THEN DATEADD(ms, @Ttbr, GETUTCDATE()) END, @Headers, @Body)
"""
"""Up to version 6."""

SEND_7 = """
INSERT INTO {0} (Id, Recoverable, Expires, Headers, Body) VALUES (@Id, 1,
        CASE WHEN @Ttbr IS NOT NULL THEN DATEADD(ms, @Ttbr, GETUTCDATE()) END, @Headers, @Body);
"""
"""From version 7 on."""

RECEIVE = {
    "2": """WITH m AS (SELECT TOP(1) * FROM {0} WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY [RowVersion] ASC)
        DELETE FROM m OUTPUT deleted.Id, deleted.CorrelationId, deleted.ReplyToAddress, deleted.Recoverable,
        CASE WHEN deleted.Expires IS NOT NULL THEN DATEDIFF(ms, GETUTCDATE(), deleted.Expires) END,
        deleted.Headers, deleted.Body""",
    "3": """WITH m AS (SELECT TOP(1) * FROM {0} WITH (UPDLOCK, READPAST, ROWLOCK)
        WHERE [Expires] IS NULL OR [Expires] > GETUTCDATE() ORDER BY [RowVersion])
        DELETE FROM m OUTPUT deleted.Id, deleted.CorrelationId, deleted.ReplyToAddress, deleted.Recoverable,
        deleted.Headers, deleted.Body;""",
    "4": SAVE_NOCOUNT
    + """WITH m AS (SELECT TOP(1) * FROM {0} WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY RowVersion)
        DELETE FROM m OUTPUT deleted.Id, deleted.CorrelationId, deleted.ReplyToAddress,
        CASE WHEN deleted.Expires IS NULL THEN 0 WHEN deleted.Expires > GETUTCDATE() THEN 0 ELSE 1 END,
        deleted.Headers, deleted.Body;"""
    + RESTORE_NOCOUNT,
    "7": SAVE_NOCOUNT
    + """WITH m AS (SELECT TOP(1) * FROM {0} WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK) ORDER BY RowVersion)
        DELETE FROM m OUTPUT deleted.Id, CASE WHEN deleted.Expires IS NULL THEN 0
        WHEN deleted.Expires > GETUTCDATE() THEN 0 ELSE 1 END, deleted.Headers, deleted.Body;"""
    + RESTORE_NOCOUNT,
}
"""By the first version that has it; headers and body are the last two columns."""

STORE_DELAYED = """
DECLARE @Due datetime = GETUTCDATE(); SET @Due = DATEADD(ms, @ms, @Due); SET @Due = DATEADD(s, @s, @Due);
SET @Due = DATEADD(n, @n, @Due); SET @Due = DATEADD(hh, @h, @Due); SET @Due = DATEADD(day, @d, @Due);
INSERT INTO {0} (Headers, Body, Due) VALUES (@Headers, @Body, @Due);"""

MOVE_DUE = """
WITH message AS (SELECT TOP(@BatchSize) * FROM {1} WITH (UPDLOCK, READPAST, ROWLOCK) WHERE Due < GETUTCDATE())
DELETE FROM message OUTPUT NEWID(), NULL, NULL, 1, NULL, deleted.Headers, deleted.Body
INTO {0} (Id, CorrelationId, ReplyToAddress, Recoverable, Expires, Headers, Body);
SELECT TOP 1 GETUTCDATE() AS UtcNow, Due AS NextDue FROM {1} WITH (READPAST, READCOMMITTEDLOCK) ORDER BY Due"""

SUBSCRIBE = """
MERGE {0} WITH (HOLDLOCK, TABLOCK) AS target
USING (SELECT @Endpoint AS Endpoint, @QueueAddress AS QueueAddress, @Topic AS Topic) AS source
ON target.Endpoint = source.Endpoint AND target.Topic = source.Topic
WHEN MATCHED AND target.QueueAddress <> source.QueueAddress THEN UPDATE SET QueueAddress = @QueueAddress
WHEN NOT MATCHED THEN INSERT (QueueAddress, Topic, Endpoint) VALUES (@QueueAddress, @Topic, @Endpoint);"""

SUBSCRIBERS = "SELECT DISTINCT QueueAddress FROM {0} WHERE Topic IN (@t1, @t2)"
UNSUBSCRIBE = "DELETE FROM {0} WHERE Endpoint = @e and Topic = @t"

CREATE = """
IF EXISTS (SELECT * FROM {1}sys.objects WHERE object_id = OBJECT_ID(N'{0}') AND type in (N'U')) RETURN
BEGIN TRANSACTION
BEGIN TRY
    EXEC sp_getapplock @Resource = '{2}_lock', @LockMode = 'Exclusive'
    IF EXISTS (SELECT * FROM {1}sys.objects WHERE object_id = OBJECT_ID(N'{0}') AND type in (N'U'))
    BEGIN EXEC sp_releaseapplock @Resource = '{2}_lock' COMMIT RETURN END
    CREATE TABLE {0}(
        [Id] [uniqueidentifier] NOT NULL, [CorrelationId] [varchar](255) NULL, [ReplyToAddress] [varchar](255) NULL,
        [Recoverable] [bit] NOT NULL, [Expires] [datetime] NULL, [Headers] {3} NOT NULL, [Body] [varbinary](max) NULL,
        {5} [RowVersion] [bigint] IDENTITY(1,1) NOT NULL
    ) ON [PRIMARY];
    CREATE {4} INDEX [Index_RowVersion] ON {0} ([RowVersion] ASC)
        WITH (PAD_INDEX = OFF, STATISTICS_NORECOMPUTE = OFF, ALLOW_ROW_LOCKS = ON, FILLFACTOR = 80) ON [PRIMARY]
    CREATE NONCLUSTERED INDEX [Index_Expires] ON {0} ([Expires]) INCLUDE ([Id], [RowVersion]) {6}
    EXEC sp_releaseapplock @Resource = '{2}_lock'
END TRY
BEGIN CATCH
    EXEC sp_releaseapplock @Resource = '{2}_lock';
    THROW;
END CATCH;
COMMIT
"""
"""Filled with the qualified name, the catalog's prefix, the lock's name, the type of Headers, the clustering, a body
string column and the filter of the index on Expires."""
