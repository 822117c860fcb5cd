-- counts: count the messages of the database's queues by its catalog
-- The catalog's count and the last identity: no row of a queue is read or locked. The catalog's own rows are, so the
-- statement waits until a CREATE, an ALTER or a rebuild of any table of the database is committed. sys.partitions has
-- every table that the login may see, while sys.dm_db_partition_stats needs the permission VIEW DATABASE STATE.
SELECT t.object_id, s.name, t.name, (
    SELECT SUM(p.rows) FROM {catalog}.sys.partitions AS p WHERE p.object_id = t.object_id AND p.index_id IN (0, 1)
), CAST(i.last_value AS bigint), CAST(i.seed_value AS bigint), CAST(i.increment_value AS bigint)
FROM {catalog}.sys.tables AS t
JOIN {catalog}.sys.schemas AS s ON s.schema_id = t.schema_id
LEFT JOIN {catalog}.sys.identity_columns AS i ON i.object_id = t.object_id
WHERE t.is_ms_shipped = 0 AND EXISTS (
    SELECT * FROM {catalog}.sys.columns AS k WHERE k.object_id = t.object_id AND k.name = 'Headers'
)
ORDER BY s.name, t.name;

-- tables: read the tables of the database
SELECT t.object_id, t.is_memory_optimized, t.temporal_type, t.is_tracked_by_cdc, t.lock_escalation_desc,
       CASE WHEN EXISTS (
           SELECT * FROM {catalog}.sys.indexes AS i WHERE i.object_id = t.object_id AND i.type = 5
       ) THEN 1 ELSE 0 END
FROM {catalog}.sys.tables AS t
WHERE t.is_ms_shipped = 0 AND EXISTS (
    SELECT * FROM {catalog}.sys.columns AS k WHERE k.object_id = t.object_id AND k.name = 'Headers'
);

-- columns: read the columns of the database's tables
SELECT c.object_id, c.name, TYPE_NAME(c.system_type_id), c.max_length, c.is_nullable, c.is_identity, c.is_computed,
       CASE WHEN c.default_object_id <> 0 THEN 1 ELSE 0 END, c.encryption_type
FROM {catalog}.sys.columns AS c
WHERE EXISTS (SELECT * FROM {catalog}.sys.tables AS t WHERE t.object_id = c.object_id AND t.is_ms_shipped = 0)
  AND EXISTS (SELECT * FROM {catalog}.sys.columns AS k WHERE k.object_id = c.object_id AND k.name = 'Headers')
ORDER BY c.object_id, c.column_id;

-- indexes: read the indexes of the database's tables
-- The rows are those of inspect.indexes.
SELECT i.object_id, i.name, c.name, i.type_desc, i.is_disabled,
       CASE WHEN i.has_filter = 1 THEN COALESCE(i.filter_definition, N'') END
FROM {catalog}.sys.indexes AS i
JOIN {catalog}.sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id AND x.key_ordinal = 1
JOIN {catalog}.sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
WHERE i.type IN (1, 2) AND i.is_hypothetical = 0
  AND EXISTS (SELECT * FROM {catalog}.sys.columns AS k WHERE k.object_id = i.object_id AND k.name = 'Headers')
ORDER BY i.object_id, i.index_id;

-- triggers: read the triggers of the database's tables
SELECT t.parent_id, t.name, e.type_desc, t.is_disabled, t.is_instead_of_trigger
FROM {catalog}.sys.triggers AS t
JOIN {catalog}.sys.trigger_events AS e ON e.object_id = t.object_id
WHERE EXISTS (SELECT * FROM {catalog}.sys.columns AS k WHERE k.object_id = t.parent_id AND k.name = 'Headers')
ORDER BY t.parent_id, t.name, e.type;

-- database: read the settings of the database
SELECT d.is_read_committed_snapshot_on, d.delayed_durability_desc FROM sys.databases AS d WHERE d.name = ?;

-- quarantined: count the messages in quarantine
-- The counts are by queue, of the first rows only: the table is for exceptions and has no index on Queue.
SELECT q.[Queue], COUNT_BIG(*)
FROM (
    SELECT TOP (?) [Queue] FROM {quarantine} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) ORDER BY [QuarantineId]
) AS q
GROUP BY q.[Queue];

-- head: read the first message of the queue
-- The time of its send comes from the text of its headers on the server, so that long headers do not leave the server.
-- Headers in another form than that of endpoints, with blanks or escapes, give no time. The row is the first one,
-- expired or not: to skip expired rows the server might have to read them all.
SELECT TOP (1) CASE
    WHEN CHARINDEX(N'"NServiceBus.TimeSent":"' COLLATE Latin1_General_BIN2, [Headers]) > 0
    THEN SUBSTRING([Headers], CHARINDEX(N'"NServiceBus.TimeSent":"' COLLATE Latin1_General_BIN2, [Headers]) + 24, 27) END
FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek}) WHERE [RowVersion] >= ? ORDER BY [RowVersion];
