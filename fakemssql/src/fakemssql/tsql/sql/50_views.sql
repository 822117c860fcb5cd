-- System views. The hidden column _db is the database of a row; domains are the T-SQL types.
CREATE SCHEMA mssql_sys;
CREATE SCHEMA mssql_information_schema;

CREATE TABLE mssql.type_texts (type text PRIMARY KEY, description text NOT NULL);
INSERT INTO mssql.type_texts VALUES ('U', 'USER_TABLE'), ('V', 'VIEW'), ('P', 'SQL_STORED_PROCEDURE'), ('TR', 'SQL_TRIGGER'),
  ('SN', 'SYNONYM'), ('PK', 'PRIMARY_KEY_CONSTRAINT'), ('UQ', 'UNIQUE_CONSTRAINT'), ('F', 'FOREIGN_KEY_CONSTRAINT'),
  ('C', 'CHECK_CONSTRAINT'), ('D', 'DEFAULT_CONSTRAINT'), ('S', 'SYSTEM_TABLE');

CREATE VIEW mssql_sys.databases AS
SELECT name::mssql.sysname AS name, database_id, NULL::int AS source_database_id, '\x01'::bytea AS owner_sid, created::mssql.datetime AS create_date,
  160::mssql.tinyint AS compatibility_level, 'SQL_Latin1_General_CP1_CI_AS'::mssql.sysname AS collation_name,
  0::mssql.tinyint AS user_access, 'MULTI_USER'::mssql.n60 AS user_access_desc, 0::mssql.bit AS is_read_only,
  0::mssql.bit AS is_auto_close_on, 0::mssql.bit AS is_auto_shrink_on, 0::mssql.tinyint AS state, 'ONLINE'::mssql.n60 AS state_desc,
  0::mssql.bit AS is_in_standby, 0::mssql.bit AS is_cleanly_shutdown, 0::mssql.bit AS is_supplemental_logging_enabled,
  snapshot_isolation::mssql.tinyint AS snapshot_isolation_state,
  CASE snapshot_isolation WHEN 1 THEN 'ON' ELSE 'OFF' END::mssql.n60 AS snapshot_isolation_state_desc,
  read_committed_snapshot::mssql.bit AS is_read_committed_snapshot_on, 1::mssql.tinyint AS recovery_model, 'FULL'::mssql.n60 AS recovery_model_desc,
  2::mssql.tinyint AS page_verify_option, 'CHECKSUM'::mssql.n60 AS page_verify_option_desc, 1::mssql.bit AS is_auto_create_stats_on,
  0::mssql.bit AS is_auto_create_stats_incremental_on, 1::mssql.bit AS is_auto_update_stats_on, 0::mssql.bit AS is_auto_update_stats_async_on,
  0::mssql.bit AS is_ansi_null_default_on, 0::mssql.bit AS is_ansi_nulls_on, 0::mssql.bit AS is_ansi_padding_on, 0::mssql.bit AS is_ansi_warnings_on, 0::mssql.bit AS is_arithabort_on,
  0::mssql.bit AS is_concat_null_yields_null_on, 0::mssql.bit AS is_numeric_roundabort_on, 0::mssql.bit AS is_quoted_identifier_on, 0::mssql.bit AS is_recursive_triggers_on,
  0::mssql.bit AS is_cursor_close_on_commit_on, 0::mssql.bit AS is_local_cursor_default, 0::mssql.bit AS is_fulltext_enabled, 0::mssql.bit AS is_trustworthy_on, 0::mssql.bit AS is_db_chaining_on,
  0::mssql.bit AS is_parameterization_forced, 0::mssql.bit AS is_master_key_encrypted_by_server, 0::mssql.bit AS is_query_store_on, 0::mssql.bit AS is_published, 0::mssql.bit AS is_subscribed,
  0::mssql.bit AS is_merge_published, 0::mssql.bit AS is_distributor, 0::mssql.bit AS is_sync_with_backup, NULL::uuid AS service_broker_guid, 0::mssql.bit AS is_broker_enabled,
  0::mssql.tinyint AS log_reuse_wait, 'NOTHING'::mssql.n60 AS log_reuse_wait_desc, 0::mssql.bit AS is_date_correlation_on, 0::mssql.bit AS is_cdc_enabled, 0::mssql.bit AS is_encrypted,
  0::mssql.bit AS is_honor_broker_priority_on, NULL::uuid AS replica_id, NULL::uuid AS group_database_id, NULL::int AS resource_pool_id,
  NULL::smallint AS default_language_lcid, NULL::mssql.sysname AS default_language_name, NULL::int AS default_fulltext_language_lcid,
  NULL::mssql.sysname AS default_fulltext_language_name, NULL::mssql.bit AS is_nested_triggers_on, NULL::mssql.bit AS is_transform_noise_words_on,
  NULL::smallint AS two_digit_year_cutoff, 0::mssql.tinyint AS containment, 'NONE'::mssql.n60 AS containment_desc, 60 AS target_recovery_time_in_seconds,
  delayed_durability::int AS delayed_durability, (ARRAY['DISABLED', 'ALLOWED', 'FORCED'])[delayed_durability + 1]::mssql.n60 AS delayed_durability_desc, 0::mssql.bit AS is_memory_optimized_elevate_to_snapshot_on,
  0::mssql.bit AS is_federation_member, 0::mssql.bit AS is_remote_data_archive_enabled, 0::mssql.bit AS is_mixed_page_allocation_on, 1::mssql.bit AS is_temporal_history_retention_enabled,
  0 AS catalog_collation_type, 'DATABASE_DEFAULT'::mssql.n60 AS catalog_collation_type_desc, name::mssql.sysname AS physical_database_name,
  0::mssql.bit AS is_result_set_caching_on, 0::mssql.bit AS is_accelerated_database_recovery_on, 0::mssql.bit AS is_tempdb_spill_to_remote_store, 0::mssql.bit AS is_stale_page_detection_on,
  0::mssql.bit AS is_memory_optimized_enabled, 0::mssql.bit AS is_data_retention_on, 0::mssql.bit AS is_ledger_on, 0::mssql.bit AS is_change_feed_enabled
FROM mssql.databases;

CREATE VIEW mssql_sys.schemas AS
SELECT database_id AS _db, name::mssql.sysname AS name, schema_id, principal_id
FROM mssql.schemas;

CREATE VIEW mssql_sys.objects AS
SELECT o.database_id AS _db, o.name::mssql.sysname AS name, o.object_id, NULL::int AS principal_id, o.schema_id, o.parent_object_id,
  rpad(o.type, 2)::mssql.char2 AS type, t.description::mssql.n60 AS type_desc, o.created::mssql.datetime AS create_date,
  o.modified::mssql.datetime AS modify_date, 0::mssql.bit AS is_ms_shipped, 0::mssql.bit AS is_published, 0::mssql.bit AS is_schema_published
FROM mssql.objects o JOIN mssql.type_texts t USING (type);
CREATE VIEW mssql_sys.all_objects AS SELECT * FROM mssql_sys.objects;
CREATE VIEW mssql_sys.sysobjects AS
SELECT _db, name, object_id AS id, type AS xtype, schema_id::smallint AS uid, parent_object_id AS parent_obj, create_date AS crdate, type FROM mssql_sys.objects;

CREATE VIEW mssql_sys.tables AS
SELECT o.*, (EXISTS (SELECT 1 FROM mssql.columns c WHERE c.object_id = o.object_id AND c.computed IS NULL
    AND (c.length = -1 OR c.type_name IN ('text', 'ntext', 'image', 'xml'))))::int AS lob_data_space_id, NULL::int AS filestream_data_space_id,
  COALESCE((SELECT max(column_id) FROM mssql.columns c WHERE c.object_id = o.object_id), 0) AS max_column_id_used,
  0::mssql.bit AS lock_on_bulk_load, 1::mssql.bit AS uses_ansi_nulls, 0::mssql.bit AS is_replicated, 0::mssql.bit AS has_replication_filter,
  0::mssql.bit AS is_merge_published, 0::mssql.bit AS is_sync_tran_subscribed, 0::mssql.bit AS has_unchecked_assembly_data, 0 AS text_in_row_limit,
  0::mssql.bit AS large_value_types_out_of_row, 0::mssql.bit AS is_tracked_by_cdc,
  CASE m.extra->>'lock_escalation' WHEN 'DISABLE' THEN 1 WHEN 'AUTO' THEN 2 ELSE 0 END::mssql.tinyint AS lock_escalation,
  COALESCE(m.extra->>'lock_escalation', 'TABLE')::mssql.n60 AS lock_escalation_desc,
  0::mssql.bit AS is_filetable, 0::mssql.bit AS is_memory_optimized, 0::mssql.tinyint AS durability, 'SCHEMA_AND_DATA'::mssql.n60 AS durability_desc,
  0::mssql.tinyint AS temporal_type, 'NON_TEMPORAL_TABLE'::mssql.n60 AS temporal_type_desc, NULL::int AS history_table_id,
  0::mssql.bit AS is_remote_data_archive_enabled, 0::mssql.bit AS is_external, NULL::int AS history_retention_period,
  NULL::int AS history_retention_period_unit, NULL::mssql.n60 AS history_retention_period_unit_desc, 0::mssql.bit AS is_node, 0::mssql.bit AS is_edge,
  NULL::int AS data_retention_period, NULL::int AS data_retention_period_unit, NULL::mssql.n60 AS data_retention_period_unit_desc,
  0::mssql.tinyint AS ledger_type, 'NON_LEDGER_TABLE'::mssql.n60 AS ledger_type_desc, NULL::int AS ledger_view_id, 0::mssql.bit AS is_dropped_ledger_table
FROM mssql_sys.objects o JOIN mssql.objects m USING (object_id) WHERE o.type = 'U ';

CREATE VIEW mssql_sys.views AS
SELECT o.*, 0::mssql.bit AS is_replicated, 0::mssql.bit AS has_replication_filter, 0::mssql.bit AS has_opaque_metadata, 0::mssql.bit AS has_unchecked_assembly_data, 0::mssql.bit AS with_check_option,
  0::mssql.bit AS is_date_correlation_view, 0::mssql.bit AS is_tracked_by_cdc, 0::mssql.bit AS has_snapshot, 0::mssql.tinyint AS ledger_view_type,
  'NON_LEDGER_VIEW'::mssql.n60 AS ledger_view_type_desc, 0::mssql.bit AS is_dropped_ledger_view
FROM mssql_sys.objects o WHERE type = 'V ';
CREATE VIEW mssql_sys.all_views AS SELECT * FROM mssql_sys.views;
CREATE VIEW mssql_sys.procedures AS
SELECT o.*, 0::mssql.bit AS is_auto_executed, 0::mssql.bit AS is_execution_replicated, 0::mssql.bit AS is_repl_serializable_only, 0::mssql.bit AS skips_repl_constraints FROM mssql_sys.objects o WHERE type = 'P ';
CREATE VIEW mssql_sys.synonyms AS
SELECT o.*, m.definition::mssql.nmax AS base_object_name FROM mssql_sys.objects o JOIN mssql.objects m USING (object_id) WHERE o.type = 'SN';
CREATE VIEW mssql_sys.triggers AS
SELECT m.database_id AS _db, o.name, o.object_id, 1::mssql.tinyint AS parent_class, 'OBJECT_OR_COLUMN'::mssql.n60 AS parent_class_desc,
  m.parent_object_id AS parent_id, o.type, o.type_desc, o.create_date, o.modify_date, o.is_ms_shipped, m.disabled::mssql.bit AS is_disabled,
  0::mssql.bit AS is_not_for_replication, (m.extra ? 'instead')::int::mssql.bit AS is_instead_of_trigger
FROM mssql_sys.objects o JOIN mssql.objects m USING (object_id) WHERE o.type = 'TR';
CREATE VIEW mssql_sys.trigger_events AS
SELECT m.database_id AS _db, m.object_id, strpos('IUD', left(e, 1)) AS type, e::mssql.n60 AS type_desc, 1::mssql.bit AS is_trigger_event,
  0::mssql.bit AS is_first, 0::mssql.bit AS is_last, NULL::int AS event_group_type, NULL::mssql.n60 AS event_group_type_desc
FROM mssql.objects m CROSS JOIN LATERAL jsonb_array_elements_text(m.extra->'declared') AS e WHERE m.type = 'TR';
CREATE VIEW mssql_sys.sql_modules AS
SELECT database_id AS _db, object_id, definition::mssql.nmax AS definition, 1::mssql.bit AS uses_ansi_nulls, 1::mssql.bit AS uses_quoted_identifier,
  0::mssql.bit AS is_schema_bound, 0::mssql.bit AS uses_database_collation, 0::mssql.bit AS is_recompiled, 0::mssql.bit AS null_on_null_input,
  NULL::int AS execute_as_principal_id, 0::mssql.bit AS uses_native_compilation, 0::mssql.bit AS is_inlineable FROM mssql.objects WHERE type IN ('V', 'P', 'TR');

CREATE VIEW mssql_sys.types AS
SELECT t.name::mssql.sysname AS name, t.type_id::mssql.tinyint AS system_type_id, t.user_type_id, 4 AS schema_id, NULL::int AS principal_id,
  t.size::smallint AS max_length, t.num_precision::mssql.tinyint AS precision, t.num_scale::mssql.tinyint AS scale,
  CASE WHEN t.name IN ('varchar', 'nvarchar', 'char', 'nchar', 'text', 'ntext', 'sysname') THEN 'SQL_Latin1_General_CP1_CI_AS' END::mssql.sysname AS collation_name,
  (t.name <> 'sysname')::int::mssql.bit AS is_nullable, 0::mssql.bit AS is_user_defined, 0::mssql.bit AS is_assembly_type,
  0 AS default_object_id, 0 AS rule_object_id, 0::mssql.bit AS is_table_type
FROM mssql.types t;
CREATE VIEW mssql_sys.systypes AS SELECT name, system_type_id AS xtype, user_type_id::smallint AS xusertype, max_length AS length FROM mssql_sys.types;

CREATE VIEW mssql_sys.columns AS
SELECT o.database_id AS _db, c.object_id, c.name::mssql.sysname AS name, c.column_id, t.type_id::mssql.tinyint AS system_type_id, t.user_type_id,
  mssql.max_length(c.type_name, c.length, c.num_precision, c.num_scale) AS max_length,
  mssql.precision_of(c.type_name, c.num_precision, c.num_scale)::mssql.tinyint AS precision,
  mssql.scale_of(c.type_name, c.num_scale)::mssql.tinyint AS scale, c.collation_name::mssql.sysname AS collation_name, c.nullable::mssql.bit AS is_nullable,
  1::mssql.bit AS is_ansi_padded, c.rowguid::mssql.bit AS is_rowguidcol, c.identity::mssql.bit AS is_identity,
  (c.computed IS NOT NULL)::int::mssql.bit AS is_computed, 0::mssql.bit AS is_filestream, 0::mssql.bit AS is_replicated,
  0::mssql.bit AS is_non_sql_subscribed, 0::mssql.bit AS is_merge_published, 0::mssql.bit AS is_dts_replicated, 0::mssql.bit AS is_xml_document, 0 AS xml_collection_id, c.default_object_id, 0 AS rule_object_id, 0::mssql.bit AS is_sparse, 0::mssql.bit AS is_column_set,
  0::mssql.tinyint AS generated_always_type, 'NOT_APPLICABLE'::mssql.n60 AS generated_always_type_desc, NULL::int AS encryption_type,
  NULL::mssql.n60 AS encryption_type_desc, NULL::mssql.sysname AS encryption_algorithm_name, NULL::int AS column_encryption_key_id,
  NULL::mssql.sysname AS column_encryption_key_database_name, 0::mssql.bit AS is_hidden, 0::mssql.bit AS is_masked, NULL::int AS graph_type,
  NULL::mssql.n60 AS graph_type_desc, 0::mssql.bit AS is_data_deletion_filter_column, NULL::mssql.tinyint AS ledger_view_column_type,
  NULL::mssql.n60 AS ledger_view_column_type_desc, 0::mssql.bit AS is_dropped_ledger_column
FROM mssql.columns c JOIN mssql.objects o USING (object_id) JOIN mssql.types t ON t.name = c.type_name;
CREATE VIEW mssql_sys.all_columns AS SELECT * FROM mssql_sys.columns;
CREATE VIEW mssql_sys.syscolumns AS
SELECT _db, name, object_id AS id, system_type_id AS xtype, max_length AS length, column_id::smallint AS colid, is_nullable::int AS isnullable FROM mssql_sys.columns;

CREATE VIEW mssql_sys.computed_columns AS
SELECT c.*, m.computed::mssql.nmax AS definition, 1::mssql.bit AS uses_database_collation, m.persisted::mssql.bit AS is_persisted
FROM mssql_sys.columns c JOIN mssql.columns m USING (object_id, column_id) WHERE m.computed IS NOT NULL;
CREATE VIEW mssql_sys.identity_columns AS
SELECT c.*, m.seed AS seed_value, m.increment AS increment_value, mssql.ident_last(c.object_id)::bigint AS last_value, 0::mssql.bit AS is_not_for_replication
FROM mssql_sys.columns c JOIN mssql.columns m USING (object_id, column_id) WHERE m.identity = 1;
CREATE VIEW mssql_sys.default_constraints AS
SELECT o.*, c.column_id AS parent_column_id, m.definition::mssql.nmax AS definition, m.system_named::mssql.bit AS is_system_named
FROM mssql_sys.objects o JOIN mssql.objects m USING (object_id) LEFT JOIN mssql.columns c ON c.default_object_id = o.object_id WHERE o.type = 'D ';
CREATE VIEW mssql_sys.check_constraints AS
SELECT o.*, 0::mssql.bit AS is_disabled, 0::mssql.bit AS is_not_for_replication, 0::mssql.bit AS is_not_trusted, 0 AS parent_column_id, m.definition::mssql.nmax AS definition,
  1::mssql.bit AS uses_database_collation, m.system_named::mssql.bit AS is_system_named
FROM mssql_sys.objects o JOIN mssql.objects m USING (object_id) WHERE o.type = 'C ';
CREATE VIEW mssql_sys.key_constraints AS
SELECT o.*, i.index_id AS unique_index_id, m.system_named::mssql.bit AS is_system_named, 1::mssql.bit AS is_enforced
FROM mssql_sys.objects o JOIN mssql.objects m USING (object_id)
JOIN mssql.indexes i ON i.object_id = m.parent_object_id AND i.folded = m.folded WHERE o.type IN ('PK', 'UQ');
CREATE VIEW mssql_sys.foreign_keys AS
SELECT o.*, (m.extra->>'target')::int AS referenced_object_id, NULL::int AS key_index_id, 0::mssql.bit AS is_disabled, 0::mssql.bit AS is_not_for_replication,
  0::mssql.bit AS is_not_trusted, GREATEST(strpos('acnd', p.confdeltype::text) - 1, 0)::mssql.tinyint AS delete_referential_action,
  CASE p.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET_NULL' WHEN 'd' THEN 'SET_DEFAULT' ELSE 'NO_ACTION' END::mssql.n60 AS delete_referential_action_desc,
  GREATEST(strpos('acnd', p.confupdtype::text) - 1, 0)::mssql.tinyint AS update_referential_action,
  CASE p.confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET_NULL' WHEN 'd' THEN 'SET_DEFAULT' ELSE 'NO_ACTION' END::mssql.n60 AS update_referential_action_desc,
  m.system_named::mssql.bit AS is_system_named
FROM mssql_sys.objects o JOIN mssql.objects m USING (object_id)
LEFT JOIN pg_constraint p ON p.contype = 'f' AND p.conname = m.pg_name AND p.conrelid = to_regclass(mssql.pg_table(m.parent_object_id)) WHERE o.type = 'F ';
CREATE VIEW mssql_sys.foreign_key_columns AS
SELECT m.database_id AS _db, m.object_id AS constraint_object_id, k.i::int AS constraint_column_id, m.parent_object_id, pc.column_id AS parent_column_id,
  (m.extra->>'target')::int AS referenced_object_id, rc.column_id AS referenced_column_id
FROM mssql.objects m JOIN pg_constraint p ON p.contype = 'f' AND p.conname = m.pg_name AND p.conrelid = to_regclass(mssql.pg_table(m.parent_object_id))
CROSS JOIN LATERAL unnest(p.conkey, p.confkey) WITH ORDINALITY AS k(a, b, i)
JOIN pg_attribute pa ON pa.attrelid = p.conrelid AND pa.attnum = k.a JOIN mssql.columns pc ON pc.object_id = m.parent_object_id AND pc.pg_name = pa.attname
JOIN pg_attribute ra ON ra.attrelid = p.confrelid AND ra.attnum = k.b JOIN mssql.columns rc ON rc.object_id = (m.extra->>'target')::int AND rc.pg_name = ra.attname
WHERE m.type = 'F';

CREATE VIEW mssql_sys.indexes AS
SELECT o.database_id AS _db, i.object_id, i.name::mssql.sysname AS name, i.index_id, i.type::mssql.tinyint AS type,
  CASE i.type WHEN 0 THEN 'HEAP' WHEN 1 THEN 'CLUSTERED' ELSE 'NONCLUSTERED' END::mssql.n60 AS type_desc, i.is_unique::mssql.bit AS is_unique,
  1 AS data_space_id, 0::mssql.bit AS ignore_dup_key, i.is_primary_key::mssql.bit AS is_primary_key,
  i.is_unique_constraint::mssql.bit AS is_unique_constraint, i.fill_factor::mssql.tinyint AS fill_factor,
  COALESCE(i.options->>'PAD_INDEX' = 'ON', false)::int::mssql.bit AS is_padded, i.disabled::mssql.bit AS is_disabled,
  0::mssql.bit AS is_hypothetical, 0::mssql.bit AS is_ignored_in_optimization,
  (i.options->>'ALLOW_ROW_LOCKS' IS DISTINCT FROM 'OFF')::int::mssql.bit AS allow_row_locks,
  (i.options->>'ALLOW_PAGE_LOCKS' IS DISTINCT FROM 'OFF')::int::mssql.bit AS allow_page_locks,
  (i.filter IS NOT NULL)::int::mssql.bit AS has_filter, i.filter::mssql.nmax AS filter_definition, NULL::int AS compression_delay,
  0::mssql.bit AS suppress_dup_key_messages, 0::mssql.bit AS auto_created,
  COALESCE(i.options->>'OPTIMIZE_FOR_SEQUENTIAL_KEY' = 'ON', false)::int::mssql.bit AS optimize_for_sequential_key
FROM (SELECT object_id, name, index_id, type, is_unique, is_primary_key, is_unique_constraint, disabled, filter, fill_factor, options FROM mssql.indexes
      UNION ALL
      SELECT t.object_id, NULL, 0, 0, 0, 0, 0, 0, NULL, 0, '{}' FROM mssql.objects t WHERE t.type = 'U'
        AND NOT EXISTS (SELECT 1 FROM mssql.indexes c WHERE c.object_id = t.object_id AND c.index_id = 1)) AS i
JOIN mssql.objects o USING (object_id);
CREATE VIEW mssql_sys.sysindexes AS
SELECT _db, object_id AS id, index_id::smallint AS indid, name, mssql.row_count(object_id) AS rowcnt, mssql.row_count(object_id)::int AS rows FROM mssql_sys.indexes;
CREATE VIEW mssql_sys.index_columns AS
SELECT o.database_id AS _db, k.object_id, k.index_id, k.index_column_id, k.column_id, k.key_ordinal::mssql.tinyint AS key_ordinal,
  0::mssql.tinyint AS partition_ordinal, k.descending::mssql.bit AS is_descending_key, k.included::mssql.bit AS is_included_column,
  0::mssql.tinyint AS column_store_order_ordinal
FROM mssql.index_columns k JOIN mssql.objects o USING (object_id);

CREATE VIEW mssql_sys.extended_properties AS
SELECT database_id AS _db, 1::mssql.tinyint AS class, 'OBJECT_OR_COLUMN'::mssql.n60 AS class_desc, 0 AS major_id, 0 AS minor_id,
  ''::mssql.sysname AS name, ''::mssql.nmax AS value FROM mssql.databases WHERE false;
CREATE VIEW mssql_sys.configurations AS SELECT 1 AS configuration_id, 'user options'::mssql.sysname AS name, 0 AS value, 0 AS value_in_use WHERE false;
CREATE VIEW mssql_sys.servers AS SELECT 0 AS server_id, 'fakemssql'::mssql.sysname AS name, 0::mssql.bit AS is_linked;

CREATE VIEW mssql_information_schema.schemata AS
SELECT s.database_id AS _db, d.name::mssql.sysname AS "catalog_name", s.name::mssql.sysname AS "schema_name", 'dbo'::mssql.sysname AS "schema_owner",
  'iso_1'::mssql.sysname AS "default_character_set_name" FROM mssql.schemas s JOIN mssql.databases d USING (database_id);
CREATE VIEW mssql_information_schema.tables AS
SELECT o.database_id AS _db, d.name::mssql.sysname AS "table_catalog", s.name::mssql.sysname AS "table_schema", o.name::mssql.sysname AS "table_name",
  CASE o.type WHEN 'U' THEN 'BASE TABLE' ELSE 'VIEW' END::mssql.n60 AS "table_type"
FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id) JOIN mssql.databases d USING (database_id) WHERE o.type IN ('U', 'V');
CREATE VIEW mssql_information_schema.views AS
SELECT o.database_id AS _db, d.name::mssql.sysname AS "table_catalog", s.name::mssql.sysname AS "table_schema", o.name::mssql.sysname AS "table_name",
  o.definition::mssql.nmax AS "view_definition", 'NONE'::mssql.n60 AS "check_option", 'NO'::mssql.n60 AS "is_updatable"
FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id) JOIN mssql.databases d USING (database_id) WHERE o.type = 'V';
CREATE VIEW mssql_information_schema.columns AS
SELECT o.database_id AS _db, d.name::mssql.sysname AS "table_catalog", s.name::mssql.sysname AS "table_schema", o.name::mssql.sysname AS "table_name",
  c.name::mssql.sysname AS "column_name", row_number() OVER (PARTITION BY c.object_id ORDER BY c.column_id)::int AS "ordinal_position",
  df.definition::mssql.nmax AS "column_default", CASE c.nullable WHEN 1 THEN 'YES' ELSE 'NO' END::mssql.n60 AS "is_nullable",
  c.type_name::mssql.sysname AS "data_type", c.length AS "character_maximum_length",
  CASE WHEN c.type_name IN ('nvarchar', 'nchar') AND c.length > 0 THEN c.length * 2 ELSE c.length END AS "character_octet_length",
  CASE WHEN c.type_name IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'numeric', 'money', 'smallmoney', 'float', 'real')
       THEN mssql.precision_of(c.type_name, c.num_precision, c.num_scale) END::mssql.tinyint AS "numeric_precision",
  CASE WHEN c.type_name IN ('float', 'real') THEN 2 WHEN c.type_name IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'numeric', 'money', 'smallmoney') THEN 10 END::smallint AS "numeric_precision_radix",
  CASE WHEN c.type_name IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'numeric', 'money', 'smallmoney') THEN mssql.scale_of(c.type_name, c.num_scale) END::int AS "numeric_scale",
  CASE c.type_name WHEN 'datetime' THEN 3 WHEN 'smalldatetime' THEN 0 WHEN 'date' THEN 0
       ELSE CASE WHEN c.type_name IN ('datetime2', 'time', 'datetimeoffset') THEN c.num_scale END END::smallint AS "datetime_precision",
  NULL::mssql.sysname AS "character_set_catalog", NULL::mssql.sysname AS "character_set_schema",
  CASE WHEN c.type_name IN ('nvarchar', 'nchar', 'ntext') THEN 'UNICODE' WHEN c.collation_name IS NOT NULL THEN 'iso_1' END::mssql.sysname AS "character_set_name",
  NULL::mssql.sysname AS "collation_catalog", NULL::mssql.sysname AS "collation_schema", c.collation_name::mssql.sysname AS "collation_name",
  NULL::mssql.sysname AS "domain_catalog", NULL::mssql.sysname AS "domain_schema", NULL::mssql.sysname AS "domain_name"
FROM mssql.columns c JOIN mssql.objects o USING (object_id) JOIN mssql.schemas s USING (database_id, schema_id) JOIN mssql.databases d USING (database_id)
LEFT JOIN mssql.objects df ON df.object_id = c.default_object_id AND c.default_object_id <> 0 WHERE o.type IN ('U', 'V');
CREATE VIEW mssql_information_schema.table_constraints AS
SELECT k.database_id AS _db, d.name::mssql.sysname AS "constraint_catalog", s.name::mssql.sysname AS "constraint_schema", k.name::mssql.sysname AS "constraint_name",
  d.name::mssql.sysname AS "table_catalog", s.name::mssql.sysname AS "table_schema", o.name::mssql.sysname AS "table_name",
  CASE k.type WHEN 'PK' THEN 'PRIMARY KEY' WHEN 'UQ' THEN 'UNIQUE' WHEN 'F' THEN 'FOREIGN KEY' ELSE 'CHECK' END::mssql.n60 AS "constraint_type",
  'NO'::mssql.n60 AS "is_deferrable", 'NO'::mssql.n60 AS "initially_deferred"
FROM mssql.objects k JOIN mssql.objects o ON o.object_id = k.parent_object_id JOIN mssql.schemas s ON s.database_id = o.database_id AND s.schema_id = o.schema_id
JOIN mssql.databases d ON d.database_id = o.database_id WHERE k.type IN ('PK', 'UQ', 'F', 'C');
CREATE VIEW mssql_information_schema.key_column_usage AS
SELECT o.database_id AS _db, d.name::mssql.sysname AS "constraint_catalog", s.name::mssql.sysname AS "constraint_schema", k.constraint_name::mssql.sysname AS "constraint_name",
  d.name::mssql.sysname AS "table_catalog", s.name::mssql.sysname AS "table_schema", o.name::mssql.sysname AS "table_name", k.column_name::mssql.sysname AS "column_name",
  k.position AS "ordinal_position"
FROM (SELECT i.object_id, i.name AS constraint_name, c.name AS column_name, k.key_ordinal AS position
      FROM mssql.indexes i JOIN mssql.index_columns k USING (object_id, index_id) JOIN mssql.columns c USING (object_id, column_id)
      WHERE i.is_primary_key = 1 OR i.is_unique_constraint = 1
      UNION ALL
      SELECT f.parent_object_id, n.name, c.name, f.constraint_column_id
      FROM mssql_sys.foreign_key_columns f JOIN mssql.objects n ON n.object_id = f.constraint_object_id
      JOIN mssql.columns c ON c.object_id = f.parent_object_id AND c.column_id = f.parent_column_id) AS k
JOIN mssql.objects o USING (object_id) JOIN mssql.schemas s USING (database_id, schema_id) JOIN mssql.databases d USING (database_id);
CREATE VIEW mssql_information_schema.constraint_column_usage AS
SELECT _db, "table_catalog", "table_schema", "table_name", "column_name", "constraint_catalog", "constraint_schema", "constraint_name" FROM mssql_information_schema.key_column_usage;
CREATE VIEW mssql_information_schema.referential_constraints AS
SELECT k.database_id AS _db, d.name::mssql.sysname AS "constraint_catalog", s.name::mssql.sysname AS "constraint_schema", k.name::mssql.sysname AS "constraint_name",
  d.name::mssql.sysname AS "unique_constraint_catalog", rs.name::mssql.sysname AS "unique_constraint_schema",
  (SELECT i.name FROM mssql.indexes i WHERE i.object_id = r.object_id AND i.is_unique = 1 AND
     (SELECT array_agg(column_id ORDER BY key_ordinal) FROM mssql.index_columns x WHERE x.object_id = i.object_id AND x.index_id = i.index_id AND x.included = 0)
     = (SELECT array_agg(f.referenced_column_id ORDER BY f.constraint_column_id) FROM mssql_sys.foreign_key_columns f WHERE f.constraint_object_id = k.object_id)
   ORDER BY i.index_id LIMIT 1)::mssql.sysname AS "unique_constraint_name",
  'SIMPLE'::mssql.n60 AS "match_option",
  (SELECT CASE confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' ELSE 'NO ACTION' END FROM pg_constraint p
   WHERE p.conname = k.pg_name AND p.conrelid = to_regclass(mssql.pg_table(k.parent_object_id)))::mssql.n60 AS "update_rule",
  (SELECT CASE confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' ELSE 'NO ACTION' END FROM pg_constraint p
   WHERE p.conname = k.pg_name AND p.conrelid = to_regclass(mssql.pg_table(k.parent_object_id)))::mssql.n60 AS "delete_rule"
FROM mssql.objects k JOIN mssql.schemas s USING (database_id, schema_id) JOIN mssql.databases d USING (database_id)
JOIN mssql.objects r ON r.object_id = (k.extra->>'target')::int JOIN mssql.schemas rs ON rs.database_id = r.database_id AND rs.schema_id = r.schema_id
WHERE k.type = 'F';
CREATE VIEW mssql_information_schema.routines AS
SELECT o.database_id AS _db, d.name::mssql.sysname AS "routine_catalog", s.name::mssql.sysname AS "routine_schema", o.name::mssql.sysname AS "routine_name",
  'PROCEDURE'::mssql.n60 AS "routine_type", o.definition::mssql.nmax AS "routine_definition"
FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id) JOIN mssql.databases d USING (database_id) WHERE o.type = 'P';

CREATE VIEW mssql_information_schema.check_constraints AS
SELECT k.database_id AS _db, d.name::mssql.sysname AS "constraint_catalog", s.name::mssql.sysname AS "constraint_schema",
  k.name::mssql.sysname AS "constraint_name", k.definition::mssql.nmax AS "check_clause"
FROM mssql.objects k JOIN mssql.schemas s USING (database_id, schema_id) JOIN mssql.databases d USING (database_id) WHERE k.type = 'C';
CREATE VIEW mssql_information_schema.constraint_table_usage AS
SELECT _db, "table_catalog", "table_schema", "table_name", "constraint_catalog", "constraint_schema", "constraint_name"
FROM mssql_information_schema.table_constraints;
CREATE VIEW mssql.system_views AS
SELECT -(c.oid::bigint % 2000000000)::int AS object_id, replace(n.nspname, 'mssql_', '') AS schema_folded, c.relname::text AS folded
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('mssql_sys', 'mssql_information_schema');
CREATE VIEW mssql_sys.system_views AS
SELECT CASE WHEN v.schema_folded = 'sys' THEN v.folded ELSE upper(v.folded) END::mssql.sysname AS name, v.object_id, NULL::int AS principal_id,
  CASE WHEN v.schema_folded = 'sys' THEN 4 ELSE 3 END AS schema_id, 0 AS parent_object_id, 'V '::mssql.char2 AS type, 'VIEW'::mssql.n60 AS type_desc,
  d.created::mssql.datetime AS create_date, d.created::mssql.datetime AS modify_date, 1::mssql.bit AS is_ms_shipped, 0::mssql.bit AS is_published,
  0::mssql.bit AS is_schema_published, 0::mssql.bit AS is_replicated, 0::mssql.bit AS has_replication_filter, 0::mssql.bit AS has_opaque_metadata,
  0::mssql.bit AS has_unchecked_assembly_data, 0::mssql.bit AS with_check_option, 0::mssql.bit AS is_date_correlation_view
FROM mssql.system_views v CROSS JOIN (SELECT min(created) AS created FROM mssql.databases) d;
