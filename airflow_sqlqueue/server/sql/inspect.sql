-- database: find the database
DECLARE @id int = DB_ID(?);
SELECT CASE WHEN @id IS NOT NULL THEN DB_NAME(@id) END;

-- object_id: find the table
SELECT OBJECT_ID(?);

-- object: read the table
-- Its names are the catalog's: the collation decides which other spellings find it.
-- The parts of a synonym's base table are read one by one; a missing part means the synonym's own database or schema.
SELECT RTRIM(o.type), PARSENAME(s.base_object_name, 4), PARSENAME(s.base_object_name, 3),
       PARSENAME(s.base_object_name, 2), PARSENAME(s.base_object_name, 1),
       DB_NAME(DB_ID(?)), h.name, o.name,
       t.is_memory_optimized, t.temporal_type, t.is_tracked_by_cdc, t.lock_escalation_desc,
       CASE WHEN EXISTS (
           SELECT * FROM {catalog}.sys.indexes AS i WHERE i.object_id = t.object_id AND i.type = 5
       ) THEN 1 ELSE 0 END,
       d.is_read_committed_snapshot_on
FROM {catalog}.sys.objects AS o
JOIN {catalog}.sys.schemas AS h ON h.schema_id = o.schema_id
LEFT JOIN {catalog}.sys.tables AS t ON t.object_id = o.object_id
LEFT JOIN {catalog}.sys.synonyms AS s ON s.object_id = o.object_id
LEFT JOIN sys.databases AS d ON d.name = ?
WHERE o.object_id = OBJECT_ID(?);

-- columns: read the table's columns
SELECT c.name, TYPE_NAME(c.system_type_id), c.max_length, c.is_nullable, c.is_identity, c.is_computed,
       CASE WHEN c.default_object_id <> 0 THEN 1 ELSE 0 END, c.encryption_type
FROM {catalog}.sys.columns AS c WHERE c.object_id = OBJECT_ID(?) ORDER BY c.column_id;

-- indexes: read the table's indexes
-- Rowstore indexes by their first key column, the only relevant one here. Every login that sees the table sees whether
-- an index is filtered; the filter's text needs VIEW DEFINITION ("sys.indexes (Transact-SQL)") and is empty without it.
SELECT i.name, c.name, i.type_desc, i.is_disabled,
       CASE WHEN i.has_filter = 1 THEN COALESCE(i.filter_definition, N'') END
FROM {catalog}.sys.indexes AS i
JOIN {catalog}.sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id AND k.key_ordinal = 1
JOIN {catalog}.sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
WHERE i.object_id = OBJECT_ID(?) AND i.type IN (1, 2) AND i.is_hypothetical = 0 ORDER BY i.index_id;

-- triggers: read the table's triggers
SELECT t.name, e.type_desc, t.is_disabled, t.is_instead_of_trigger
FROM {catalog}.sys.triggers AS t
JOIN {catalog}.sys.trigger_events AS e ON e.object_id = t.object_id
WHERE t.parent_id = OBJECT_ID(?) ORDER BY t.name, e.type;

-- tables: list the tables of the database
-- Every table with a column of one of the transport's tables; the kind follows from all its columns. The count comes
-- from the catalog: it takes no lock on the rows and may be slightly out of date.
SELECT s.name, t.name, c.name, TYPE_NAME(c.system_type_id), (
    SELECT SUM(p.rows) FROM {catalog}.sys.partitions AS p WHERE p.object_id = t.object_id AND p.index_id IN (0, 1)
)
FROM {catalog}.sys.tables AS t
JOIN {catalog}.sys.schemas AS s ON s.schema_id = t.schema_id
JOIN {catalog}.sys.columns AS c ON c.object_id = t.object_id
WHERE t.is_ms_shipped = 0 AND EXISTS (
    SELECT * FROM {catalog}.sys.columns AS k
    WHERE k.object_id = t.object_id AND k.name IN ('Headers', 'Topic')
)
ORDER BY s.name, t.name, c.column_id;

-- size: read the table's size
-- Only pages of rows count: a row is in one of them, with a pointer to a body that does not fit.
SELECT COALESCE(SUM(p.rows), 0), COALESCE(SUM(a.data_pages), 0)
FROM {catalog}.sys.partitions AS p
JOIN {catalog}.sys.allocation_units AS a ON a.container_id = p.hobt_id AND a.type = 1
WHERE p.object_id = OBJECT_ID(?) AND p.index_id IN (0, 1);

-- pages: read the table's pages
-- Statistics of single indexes, because the function takes a NULL in place of a dropped table's id as "all tables".
-- SAMPLED reads every hundredth page, and all pages where there are fewer than 10,000 ("Scanning modes"); LIMITED
-- counts no records.
SELECT i.name, SUM(p.page_count), SUM(COALESCE(p.record_count, 0)), SUM(COALESCE(p.ghost_record_count, 0)),
       SUM(COALESCE(p.version_ghost_record_count, 0)), SUM(COALESCE(p.forwarded_record_count, 0)),
       COALESCE(SUM(COALESCE(p.avg_fragmentation_in_percent, 0) * p.page_count) / NULLIF(SUM(p.page_count), 0), 0),
       MAX(CAST(i.allow_page_locks AS int))
FROM {catalog}.sys.indexes AS i
CROSS APPLY sys.dm_db_index_physical_stats(DB_ID(?), i.object_id, i.index_id, NULL, 'SAMPLED') AS p
WHERE i.object_id = OBJECT_ID(?) AND i.type IN (0, 1, 2) AND i.is_disabled = 0 AND i.is_hypothetical = 0
  AND p.alloc_unit_type_desc = 'IN_ROW_DATA' AND p.index_level = 0
GROUP BY i.index_id, i.name ORDER BY i.index_id;

-- row_count: read the table's row count
SELECT COALESCE(SUM(p.rows), 0) FROM {catalog}.sys.partitions AS p
WHERE p.object_id = OBJECT_ID(?) AND p.index_id IN (0, 1);

-- count_rows: count the table's rows
SELECT COUNT_BIG(*) FROM {table} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK);

-- identity: read the table's last identity value
-- IDENT_CURRENT is the same for a table that never had a row and for a table with a single row; last_value is NULL for
-- the first.
SELECT CAST(c.last_value AS bigint), CAST(c.seed_value AS bigint), CAST(c.increment_value AS bigint)
FROM {catalog}.sys.identity_columns AS c WHERE c.object_id = OBJECT_ID(?);

-- durability: read how durable a COMMIT is in the database
SELECT delayed_durability_desc FROM sys.databases WHERE name = ?;

-- receivers: find other receivers of the queue
-- Endpoints keep their connections; the last statement of a receiving endpoint names the queue, and deletes or peeks.
SELECT DISTINCT s.program_name, s.host_name
FROM sys.dm_exec_connections AS c
JOIN sys.dm_exec_sessions AS s ON s.session_id = c.session_id
CROSS APPLY sys.dm_exec_sql_text(c.most_recent_sql_handle) AS q
WHERE s.session_id <> @@SPID AND s.program_name <> ? AND CHARINDEX(?, q.text) > 0
  AND (CHARINDEX('DELETE', q.text) > 0 OR CHARINDEX('RowVersion', q.text) > 0);
