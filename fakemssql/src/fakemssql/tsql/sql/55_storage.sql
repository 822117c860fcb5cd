-- Storage: partitions, pages, statistics, files. Pages are those of PostgreSQL, which have 8 KB too.
CREATE FUNCTION mssql.index_relation(id int, number int) RETURNS regclass LANGUAGE sql STABLE
  RETURN (SELECT to_regclass(format('%I.%I', s.pg_name, i.pg_name)) FROM mssql.indexes i JOIN mssql.objects o USING (object_id)
          JOIN mssql.schemas s USING (database_id, schema_id) WHERE i.object_id = id AND i.index_id = number AND i.disabled = 0);
CREATE FUNCTION mssql.relation_pages(relation regclass) RETURNS bigint LANGUAGE sql STABLE
  RETURN COALESCE(pg_relation_size(relation) / 8192, 0);
CREATE FUNCTION mssql.data_pages(id int, number int) RETURNS bigint LANGUAGE sql STABLE
  RETURN mssql.relation_pages(CASE WHEN number < 2 THEN to_regclass(mssql.pg_table(id)) ELSE mssql.index_relation(id, number) END);
-- The levels above the rows of a clustered index count as used, not as data.
CREATE FUNCTION mssql.used_pages(id int, number int) RETURNS bigint LANGUAGE sql STABLE
  RETURN mssql.data_pages(id, number) + CASE WHEN number = 1 THEN mssql.relation_pages(mssql.index_relation(id, 1)) ELSE 0 END;
CREATE FUNCTION mssql.lob_pages(id int, number int) RETURNS bigint LANGUAGE sql STABLE
  RETURN CASE WHEN number < 2 THEN mssql.relation_pages((SELECT c.reltoastrelid FROM pg_class c WHERE c.oid = to_regclass(mssql.pg_table(id)))) ELSE 0 END;
CREATE FUNCTION mssql.extents(pages bigint) RETURNS bigint LANGUAGE sql IMMUTABLE RETURN (pages + 7) / 8 * 8;
-- UPDATE STATISTICS ... WITH ROWCOUNT sets the number of rows that the catalog has more than the table.
CREATE FUNCTION mssql.index_rows(id int, number int) RETURNS bigint LANGUAGE sql STABLE
  RETURN mssql.row_count(id, (SELECT pg_get_expr(x.indpred, x.indrelid) FROM pg_index x WHERE number > 1 AND x.indexrelid = mssql.index_relation(id, number)))
    + CASE WHEN number < 2 THEN COALESCE((SELECT (o.extra->>'rows_more')::bigint FROM mssql.objects o WHERE o.object_id = id), 0) ELSE 0 END;

-- A disabled index has a definition and no data.
CREATE VIEW mssql.stored AS
SELECT i._db, i.object_id, i.index_id, 72057594037927936 + (i.object_id::bigint << 16) + i.index_id AS partition_id
FROM mssql_sys.indexes i WHERE i.is_disabled = 0;

CREATE VIEW mssql_sys.partitions AS
SELECT s._db, s.partition_id, s.object_id, s.index_id, 1 AS partition_number, s.partition_id AS hobt_id,
  mssql.index_rows(s.object_id, s.index_id) AS rows, 0::smallint AS filestream_filegroup_id,
  CASE c.compression WHEN 'ROW' THEN 1 WHEN 'PAGE' THEN 2 ELSE 0 END::mssql.tinyint AS data_compression,
  COALESCE(c.compression, 'NONE')::mssql.n60 AS data_compression_desc, 0::mssql.bit AS xml_compression, 'OFF'::mssql.n60 AS xml_compression_desc
FROM mssql.stored s LEFT JOIN mssql.indexes i USING (object_id, index_id) JOIN mssql.objects o ON o.object_id = s.object_id
CROSS JOIN LATERAL (SELECT COALESCE(i.options->>'DATA_COMPRESSION', CASE WHEN s.index_id < 2 THEN o.extra->>'compression' END) AS compression) AS c;

CREATE VIEW mssql_sys.dm_db_partition_stats AS
SELECT s._db, s.partition_id, s.object_id, s.index_id, 1 AS partition_number, mssql.data_pages(s.object_id, s.index_id) AS in_row_data_page_count,
  mssql.used_pages(s.object_id, s.index_id) AS in_row_used_page_count,
  mssql.extents(mssql.used_pages(s.object_id, s.index_id)) AS in_row_reserved_page_count,
  mssql.lob_pages(s.object_id, s.index_id) AS lob_used_page_count, mssql.extents(mssql.lob_pages(s.object_id, s.index_id)) AS lob_reserved_page_count,
  0::bigint AS row_overflow_used_page_count, 0::bigint AS row_overflow_reserved_page_count,
  mssql.used_pages(s.object_id, s.index_id) + mssql.lob_pages(s.object_id, s.index_id) AS used_page_count,
  mssql.extents(mssql.used_pages(s.object_id, s.index_id)) + mssql.extents(mssql.lob_pages(s.object_id, s.index_id)) AS reserved_page_count,
  mssql.index_rows(s.object_id, s.index_id) AS row_count
FROM mssql.stored s;

CREATE VIEW mssql_sys.allocation_units AS
SELECT s._db, s.partition_id * 4 + 1 AS allocation_unit_id, 1::mssql.tinyint AS type, 'IN_ROW_DATA'::mssql.n60 AS type_desc,
  s.partition_id AS container_id, 1 AS data_space_id, mssql.extents(mssql.used_pages(s.object_id, s.index_id)) AS total_pages,
  mssql.used_pages(s.object_id, s.index_id) AS used_pages, mssql.data_pages(s.object_id, s.index_id) AS data_pages
FROM mssql.stored s
UNION ALL
SELECT s._db, s.partition_id * 4 + 2, 2, 'LOB_DATA', s.partition_id, 1, mssql.extents(mssql.lob_pages(s.object_id, s.index_id)),
  mssql.lob_pages(s.object_id, s.index_id), 0
FROM mssql.stored s JOIN mssql_sys.tables t ON t.object_id = s.object_id WHERE s.index_id < 2 AND t.lob_data_space_id = 1;

-- Statistics of indexes; PostgreSQL has statistics of whole tables only.
CREATE FUNCTION mssql.stats_date(db int, id int, number int) RETURNS timestamp LANGUAGE sql STABLE
  RETURN (SELECT (GREATEST(a.last_analyze, a.last_autoanalyze) AT TIME ZONE 'UTC')::timestamp(3)
          FROM pg_stat_all_tables a WHERE a.relid = to_regclass(mssql.pg_table(id))
            AND EXISTS (SELECT 1 FROM mssql.indexes i WHERE i.object_id = id AND i.index_id = number));
CREATE VIEW mssql_sys.stats AS
SELECT i._db, i.object_id, i.name, i.index_id AS stats_id, 0::mssql.bit AS auto_created, 0::mssql.bit AS user_created,
  COALESCE((SELECT m.options->>'STATISTICS_NORECOMPUTE' = 'ON' FROM mssql.indexes m WHERE m.object_id = i.object_id AND m.index_id = i.index_id),
    false)::int::mssql.bit AS no_recompute, i.has_filter, i.filter_definition, 0::mssql.bit AS is_temporary, 0::mssql.bit AS is_incremental,
  0::mssql.bit AS has_persisted_sample, 0 AS stats_generation_method, 'Sort based statistics'::mssql.n60 AS stats_generation_method_desc,
  0::mssql.bit AS auto_drop
FROM mssql_sys.indexes i WHERE i.index_id > 0;
CREATE VIEW mssql_sys.stats_columns AS
SELECT _db, object_id, index_id AS stats_id, key_ordinal::int AS stats_column_id, column_id FROM mssql_sys.index_columns WHERE key_ordinal > 0;
CREATE FUNCTION mssql_sys.dm_db_stats_properties(wanted int, number int)
RETURNS TABLE (object_id int, stats_id int, last_updated mssql.datetime, rows bigint, rows_sampled bigint, steps int, unfiltered_rows bigint,
  modification_counter bigint, persisted_sample_percent float8) LANGUAGE sql STABLE AS $$
  SELECT i.object_id, i.index_id, mssql.stats_date(0, i.object_id, i.index_id), a.n_live_tup, a.n_live_tup, 1, a.n_live_tup, a.n_mod_since_analyze, 0
  FROM mssql.indexes i JOIN pg_stat_all_tables a ON a.relid = to_regclass(mssql.pg_table(i.object_id))
  WHERE i.object_id = wanted AND i.index_id = number
$$;

CREATE VIEW mssql_sys.dm_db_index_usage_stats AS
SELECT i._db::smallint AS database_id, i.object_id, i.index_id, CASE WHEN i.index_id > 0 THEN COALESCE(x.idx_scan, 0) ELSE 0 END AS user_seeks,
  CASE WHEN i.index_id < 2 THEN COALESCE(t.seq_scan, 0) ELSE 0 END AS user_scans, 0::bigint AS user_lookups,
  t.n_tup_ins + t.n_tup_upd + t.n_tup_del AS user_updates,
  (x.last_idx_scan AT TIME ZONE 'UTC')::mssql.datetime AS last_user_seek,
  CASE WHEN i.index_id < 2 THEN (t.last_seq_scan AT TIME ZONE 'UTC') END::mssql.datetime AS last_user_scan, NULL::mssql.datetime AS last_user_lookup,
  NULL::mssql.datetime AS last_user_update, 0::bigint AS system_seeks, 0::bigint AS system_scans, 0::bigint AS system_lookups,
  0::bigint AS system_updates, NULL::mssql.datetime AS last_system_seek, NULL::mssql.datetime AS last_system_scan,
  NULL::mssql.datetime AS last_system_lookup, NULL::mssql.datetime AS last_system_update
FROM mssql_sys.indexes i JOIN pg_stat_all_tables t ON t.relid = to_regclass(mssql.pg_table(i.object_id))
LEFT JOIN pg_stat_all_indexes x ON x.indexrelid = mssql.index_relation(i.object_id, i.index_id);

-- LIMITED, the default, returns NULL for values that need a read of every page, and SAMPLED for the order of a heap's pages.
-- Dead rows that still exist are ghosts.
CREATE FUNCTION mssql_sys.dm_db_index_physical_stats(db int, wanted int, number int, part int, mode text)
RETURNS TABLE (database_id smallint, object_id int, index_id int, partition_number int, index_type_desc mssql.n60, alloc_unit_type_desc mssql.n60,
  index_depth mssql.tinyint, index_level mssql.tinyint, avg_fragmentation_in_percent float8, fragment_count bigint, avg_fragment_size_in_pages float8,
  page_count bigint, avg_page_space_used_in_percent float8, record_count bigint, ghost_record_count bigint, version_ghost_record_count bigint,
  min_record_size_in_bytes int, max_record_size_in_bytes int, avg_record_size_in_bytes float8, forwarded_record_count bigint,
  compressed_page_count bigint, hobt_id bigint) LANGUAGE sql STABLE AS $$
  SELECT s._db::smallint, s.object_id, s.index_id, 1,
    CASE s.index_id WHEN 0 THEN 'HEAP' WHEN 1 THEN 'CLUSTERED INDEX' ELSE 'NONCLUSTERED INDEX' END, 'IN_ROW_DATA', 1::smallint, 0::smallint, CASE WHEN ordered.known THEN 0 END::float8,
    CASE WHEN ordered.known THEN 1 END::bigint, CASE WHEN ordered.known THEN p.pages END::float8, p.pages, NULL::float8, full_scan.rows, full_scan.dead, 0::bigint, NULL::int, NULL::int,
    CASE WHEN full_scan.rows > 0 THEN p.pages * 8192.0 / full_scan.rows END::float8, CASE WHEN s.index_id = 0 AND full_scan.rows IS NOT NULL THEN 0 END::bigint, 0::bigint,
    s.partition_id
  FROM mssql.stored s CROSS JOIN LATERAL (SELECT s.index_id > 0 OR upper(COALESCE(mode, '')) <> 'SAMPLED' AS known) AS ordered
  CROSS JOIN LATERAL (SELECT mssql.data_pages(s.object_id, s.index_id) AS pages) AS p
  LEFT JOIN LATERAL (SELECT mssql.index_rows(s.object_id, s.index_id) AS rows,
      (SELECT t.n_dead_tup FROM pg_stat_all_tables t WHERE t.relid = to_regclass(mssql.pg_table(s.object_id))) AS dead
    WHERE upper(mode) IN ('SAMPLED', 'DETAILED')) AS full_scan ON true
  WHERE (COALESCE(db, 0) = 0 OR s._db = db) AND (COALESCE(wanted, 0) = 0 OR s.object_id = wanted) AND (COALESCE(number, -1) = -1 OR s.index_id = number)
    AND COALESCE(part, 1) IN (0, 1)
    AND (upper(COALESCE(mode, 'LIMITED')) IN ('DEFAULT', 'LIMITED', 'SAMPLED', 'DETAILED')
      OR mssql.raise(40517, 'The mode ' || mode || ' of sys.dm_db_index_physical_stats is not supported by fakemssql.') IS NULL)
$$;

CREATE VIEW mssql_sys.data_spaces AS
SELECT 'PRIMARY'::mssql.sysname AS name, 1 AS data_space_id, 'FG'::mssql.char2 AS type, 'ROWS_FILEGROUP'::mssql.n60 AS type_desc,
  1::mssql.bit AS is_default, 0::mssql.bit AS is_system;
CREATE VIEW mssql_sys.filegroups AS
SELECT *, NULL::uuid AS filegroup_guid, NULL::int AS log_filegroup_id, 0::mssql.bit AS is_read_only, 0::mssql.bit AS is_autogrow_all_files
FROM mssql_sys.data_spaces;
CREATE VIEW mssql_sys.master_files AS
SELECT d.database_id, f.id AS file_id, NULL::uuid AS file_guid, f.type::mssql.tinyint AS type, f.description::mssql.n60 AS type_desc,
  (1 - f.type)::int AS data_space_id, (d.name || f.suffix)::mssql.sysname AS name, (d.name || f.suffix || f.extension)::mssql.n260 AS physical_name,
  0::mssql.tinyint AS state, 'ONLINE'::mssql.n60 AS state_desc,
  CASE f.type WHEN 0 THEN (SELECT COALESCE(sum(pg_relation_size(c.oid)), 0) / 8192 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN mssql.schemas s ON s.pg_name = n.nspname WHERE s.database_id = d.database_id AND c.relkind = 'r') ELSE 0 END::int AS size,
  -1 AS max_size, 8192 AS growth, 0::mssql.bit AS is_media_read_only, 0::mssql.bit AS is_read_only, 0::mssql.bit AS is_sparse,
  0::mssql.bit AS is_percent_growth, 0::mssql.bit AS is_name_reserved
FROM mssql.databases d CROSS JOIN (VALUES (1, 0, 'ROWS', '', '.mdf'), (2, 1, 'LOG', '_log', '.ldf')) AS f(id, type, description, suffix, extension);
CREATE VIEW mssql_sys.database_files AS
SELECT database_id AS _db, file_id, file_guid, type, type_desc, data_space_id, name, physical_name, state, state_desc, size, max_size, growth,
  is_media_read_only, is_read_only, is_sparse, is_percent_growth, is_name_reserved FROM mssql_sys.master_files;

CREATE FUNCTION mssql_sys.fn_listextendedproperty(property text, level0 text, name0 text, level1 text, name1 text, level2 text, name2 text)
RETURNS TABLE (objtype mssql.sysname, objname mssql.sysname, name mssql.sysname, value mssql.nmax) LANGUAGE sql STABLE AS
$$ SELECT NULL, NULL, NULL, NULL WHERE false $$;
CREATE FUNCTION mssql_sys.fn_helpcollations() RETURNS TABLE (name mssql.sysname, description mssql.nmax) LANGUAGE sql STABLE AS
$$ SELECT 'SQL_Latin1_General_CP1_CI_AS', 'Latin1-General, case-insensitive, accent-sensitive, kanatype-insensitive, width-insensitive' $$;
