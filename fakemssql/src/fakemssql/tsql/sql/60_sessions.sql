-- Current sessions, requests, transactions and locks. Each session writes its state to a file in the data directory, which
-- runtime/connection/session_file.py describes; PostgreSQL has the locks that a session waits for.
CREATE FUNCTION mssql.int_at(raw bytea, at int) RETURNS int LANGUAGE sql IMMUTABLE
  RETURN get_byte(raw, at) + (get_byte(raw, at + 1) << 8) + (get_byte(raw, at + 2) << 16) + (get_byte(raw, at + 3) << 24);
CREATE FUNCTION mssql.session_file(pid int) RETURNS bytea LANGUAGE plpgsql VOLATILE AS $$
DECLARE raw bytea;
BEGIN
  -- A writer may have been interrupted while it wrote its state: wait for it, up to one second in all.
  FOR attempt IN 1 .. 100 LOOP
    raw := pg_read_binary_file('fakemssql_sessions/' || pid, 0, 32768, true);
    IF raw IS NULL OR substr(raw, 32761, 8) = '\x0000000000000000' THEN RETURN NULL; END IF;
    IF length(raw) = 32768 AND substr(raw, 1, 8) = substr(raw, 32761, 8) THEN RETURN raw; END IF;
    IF attempt > 10 THEN PERFORM pg_sleep(0.01); END IF;
  END LOOP;
  RETURN NULL;
END $$;
CREATE FUNCTION mssql.moment(seconds text) RETURNS timestamp LANGUAGE sql IMMUTABLE
  RETURN mssql.dt(to_timestamp(seconds::float8) AT TIME ZONE 'UTC');

CREATE FUNCTION mssql.sessions()
RETURNS TABLE (pid int, session_id int, database_id int, started timestamp, wait_event_type text, wait_event text, record jsonb, text text)
LANGUAGE sql STABLE AS $$
  SELECT a.pid, a.pid % 32768, d.database_id, mssql.moment(r.record->>'started'), a.wait_event_type, a.wait_event, r.record, r.text
  FROM pg_stat_activity a CROSS JOIN LATERAL (SELECT mssql.session_file(a.pid) AS raw OFFSET 0) AS f
  CROSS JOIN LATERAL (SELECT convert_from(substr(f.raw, 13, mssql.int_at(f.raw, 8)), 'UTF8')::jsonb AS record,
    convert_from(substr(f.raw, 4101, mssql.int_at(f.raw, 4096)), 'UTF8') AS text WHERE f.raw IS NOT NULL OFFSET 0) AS r
  LEFT JOIN mssql.databases d ON d.folded = mssql.fold(r.record->>'database')
  WHERE a.backend_type = 'client backend' AND (r.record->>'backend')::numeric = extract(epoch FROM a.backend_start)
$$;
-- The handle identifies a session and its text: after the session has run another text, the old one is gone.
CREATE FUNCTION mssql.sql_handle(pid int, text text) RETURNS bytea LANGUAGE sql IMMUTABLE
  RETURN '\x02000000'::bytea || int4send(pid) || decode(md5(text), 'hex');
CREATE FUNCTION mssql.blocker(pid int) RETURNS smallint LANGUAGE sql STABLE
  RETURN (SELECT COALESCE(min(b), 0) % 32768 FROM unnest(pg_blocking_pids(pid)) AS b)::smallint;

-- Kind of a batch by its first statement, after declarations of parameters and common table expressions.
CREATE FUNCTION mssql.command_of(text text) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN upper(COALESCE(
    (regexp_match(text, '^(?:\(@.*?\))?\s*(SELECT|INSERT|UPDATE|DELETE|MERGE|WAITFOR|EXECUTE|CREATE|ALTER|DROP|TRUNCATE)\M', 'i'))[1],
    CASE WHEN text ~* '^(?:\(@.*?\))?\s*WITH\M' THEN (regexp_match(text, '\m(INSERT|UPDATE|DELETE|MERGE)\M', 'i'))[1] END, 'SELECT'));

CREATE VIEW mssql_sys.dm_exec_sessions AS
SELECT s.session_id::smallint AS session_id, s.started::mssql.datetime AS login_time, (s.record->>'host')::mssql.sysname AS host_name,
  (s.record->>'program')::mssql.sysname AS program_name, (s.record->>'process')::int AS host_process_id, 7 AS client_version,
  (s.record->>'library')::mssql.sysname AS client_interface_name, '\x01'::bytea AS security_id, (s.record->>'login')::mssql.sysname AS login_name,
  NULL::mssql.sysname AS nt_domain, NULL::mssql.sysname AS nt_user_name,
  CASE WHEN (s.record->>'running')::bool THEN 'running' ELSE 'sleeping' END::mssql.n60 AS status, NULL::bytea AS context_info,
  0 AS cpu_time, 2 AS memory_usage, 0 AS total_scheduled_time,
  (1000 * (CASE WHEN (s.record->>'running')::bool THEN extract(epoch FROM clock_timestamp()) ELSE (s.record->>'ended')::numeric END
    - (s.record->>'began')::numeric))::int AS total_elapsed_time,
  4 AS endpoint_id, mssql.moment(s.record->>'began')::mssql.datetime AS last_request_start_time,
  mssql.moment(s.record->>'ended')::mssql.datetime AS last_request_end_time, 0::bigint AS reads, 0::bigint AS writes, 0::bigint AS logical_reads,
  1::mssql.bit AS is_user_process, 2147483647 AS text_size, 'us_english'::mssql.sysname AS language, 'mdy'::mssql.sysname AS date_format,
  7::smallint AS date_first, 1::mssql.bit AS quoted_identifier, 1::mssql.bit AS arithabort, 1::mssql.bit AS ansi_null_dflt_on,
  0::mssql.bit AS ansi_defaults, 1::mssql.bit AS ansi_warnings, 1::mssql.bit AS ansi_padding, 1::mssql.bit AS ansi_nulls,
  1::mssql.bit AS concat_null_yields_null, (s.record->>'isolation')::smallint AS transaction_isolation_level,
  (s.record->>'lock_timeout')::int AS lock_timeout, (s.record->>'deadlock_priority')::int AS deadlock_priority, (s.record->>'row_count')::bigint AS row_count,
  (s.record->>'error')::int AS prev_error, '\x01'::bytea AS original_security_id, (s.record->>'login')::mssql.sysname AS original_login_name,
  NULL::mssql.datetime AS last_successful_logon, NULL::mssql.datetime AS last_unsuccessful_logon, NULL::bigint AS unsuccessful_logons, 2 AS group_id,
  s.database_id::smallint AS database_id, 1 AS authenticating_database_id, (s.record->>'transactions')::int AS open_transaction_count
FROM mssql.sessions() AS s;

CREATE VIEW mssql_sys.dm_exec_connections AS
SELECT s.session_id, s.session_id AS most_recent_session_id, s.started::mssql.datetime AS connect_time, 'TCP'::mssql.n60 AS net_transport,
  'TSQL'::mssql.n60 AS protocol_type, (s.record->>'tds_version')::int AS protocol_version, 4 AS endpoint_id,
  CASE WHEN (s.record->>'encrypted')::bool THEN 'TRUE' ELSE 'FALSE' END::mssql.n60 AS encrypt_option, 'SQL'::mssql.n60 AS auth_scheme,
  0::smallint AS node_affinity, 0 AS num_reads, 0 AS num_writes, mssql.moment(s.record->>'began')::mssql.datetime AS last_read,
  mssql.moment(s.record->>'ended')::mssql.datetime AS last_write, (s.record->>'packet_size')::int AS net_packet_size,
  (s.record->>'address')::mssql.n60 AS client_net_address, (s.record->>'port')::int AS client_tcp_port, '127.0.0.1'::mssql.n60 AS local_net_address,
  NULL::int AS local_tcp_port, md5(s.pid || (s.record->>'started'))::uuid AS connection_id, NULL::uuid AS parent_connection_id,
  mssql.sql_handle(s.pid, s.text) AS most_recent_sql_handle
FROM mssql.sessions() AS s;

CREATE VIEW mssql_sys.dm_exec_requests AS
SELECT s.session_id::smallint AS session_id, 0 AS request_id, mssql.moment(s.record->>'began')::mssql.datetime AS start_time,
  CASE WHEN s.wait_event_type = 'Lock' OR s.wait_event = 'PgSleep' THEN 'suspended' ELSE 'running' END::mssql.n60 AS status,
  mssql.command_of(s.text)::mssql.n60 AS command,
  mssql.sql_handle(s.pid, s.text) AS sql_handle, 0 AS statement_start_offset, -1 AS statement_end_offset, NULL::bytea AS plan_handle,
  s.database_id::smallint AS database_id, 1 AS user_id, md5(s.pid || (s.record->>'started'))::uuid AS connection_id,
  CASE WHEN s.wait_event_type = 'Lock' THEN mssql.blocker(s.pid) ELSE 0 END::smallint AS blocking_session_id,
  CASE WHEN s.wait_event_type = 'Lock' THEN 'LCK_M_X' WHEN s.wait_event = 'PgSleep' THEN 'WAITFOR' END::mssql.n60 AS wait_type,
  COALESCE((SELECT (1000 * extract(epoch FROM clock_timestamp() - min(l.waitstart)))::int FROM pg_locks l WHERE l.pid = s.pid AND NOT l.granted), 0) AS wait_time,
  'MISCELLANEOUS'::mssql.n60 AS last_wait_type, ''::mssql.n260 AS wait_resource, (s.record->>'transactions')::int AS open_transaction_count,
  1 AS open_resultset_count, (s.pid::bigint << 32) + (s.record->>'transaction')::bigint AS transaction_id, NULL::bytea AS context_info,
  0::float8 AS percent_complete, 0::bigint AS estimated_completion_time, 0 AS cpu_time,
  (1000 * (extract(epoch FROM clock_timestamp()) - (s.record->>'began')::numeric))::int AS total_elapsed_time, 0 AS scheduler_id,
  0::bigint AS reads, 0::bigint AS writes, 0::bigint AS logical_reads, 2147483647 AS text_size, 'us_english'::mssql.sysname AS language,
  (s.record->>'isolation')::smallint AS transaction_isolation_level, (s.record->>'lock_timeout')::int AS lock_timeout, (s.record->>'deadlock_priority')::int AS deadlock_priority,
  (s.record->>'row_count')::bigint AS row_count, (s.record->>'error')::int AS prev_error, 0 AS nest_level, 0 AS granted_query_memory,
  0::mssql.bit AS executing_managed_code, 2 AS group_id, NULL::bytea AS query_hash, NULL::bytea AS query_plan_hash
FROM mssql.sessions() AS s WHERE (s.record->>'running')::bool;

CREATE VIEW mssql_sys.dm_os_waiting_tasks AS
SELECT session_id, wait_time::bigint AS wait_duration_ms, wait_type, NULLIF(blocking_session_id, 0) AS blocking_session_id, wait_resource AS resource_description
FROM mssql_sys.dm_exec_requests WHERE wait_type IS NOT NULL;

CREATE FUNCTION mssql_sys.dm_exec_sql_text(handle bytea)
RETURNS TABLE (dbid smallint, objectid int, number smallint, encrypted mssql.bit, text mssql.nmax) LANGUAGE sql STABLE AS $$
  SELECT s.database_id::smallint, NULL::int, NULL::smallint, 0::smallint, s.text FROM mssql.sessions() AS s WHERE mssql.sql_handle(s.pid, s.text) = handle
$$;
CREATE FUNCTION mssql_sys.dm_exec_input_buffer(session int, request int)
RETURNS TABLE (event_type mssql.n60, parameters smallint, event_info mssql.nmax) LANGUAGE sql STABLE AS $$
  SELECT 'Language Event', 0::smallint, s.text FROM mssql.sessions() AS s WHERE s.session_id = session
$$;

CREATE VIEW mssql_sys.dm_tran_session_transactions AS
SELECT s.session_id, (s.pid::bigint << 32) + (s.record->>'transaction')::bigint AS transaction_id, int8send((s.record->>'transaction')::bigint) AS transaction_descriptor,
  1 AS enlist_count, 1::mssql.bit AS is_user_transaction, 1::mssql.bit AS is_local, 0::mssql.bit AS is_enlisted, 0::mssql.bit AS is_bound,
  (s.record->>'transactions')::int AS open_transaction_count
FROM mssql.sessions() AS s WHERE (s.record->>'transactions')::int > 0;
CREATE VIEW mssql_sys.dm_tran_active_transactions AS
SELECT (s.pid::bigint << 32) + (s.record->>'transaction')::bigint AS transaction_id, 'user_transaction'::mssql.n60 AS name,
  mssql.moment(s.record->>'transaction_began')::mssql.datetime AS transaction_begin_time, 1 AS transaction_type, NULL::uuid AS transaction_uow,
  2 AS transaction_state, 0 AS transaction_status, 0 AS transaction_status2, 0 AS dtc_state, 0 AS dtc_status, 0 AS dtc_isolation_level
FROM mssql.sessions() AS s WHERE (s.record->>'transactions')::int > 0;

CREATE VIEW mssql_sys.dm_tran_locks AS
SELECT CASE l.locktype WHEN 'advisory' THEN 'APPLICATION' WHEN 'relation' THEN 'OBJECT' ELSE 'RID' END::mssql.n60 AS resource_type,
  ''::mssql.n60 AS resource_subtype, COALESCE(o.database_id, 1) AS resource_database_id,
  CASE l.locktype WHEN 'tuple' THEN '1:' || l.page || ':' || l.tuple WHEN 'advisory' THEN '0:[]:(' || to_hex(l.objid::bigint) || ')' ELSE '' END::mssql.n260 AS resource_description,
  COALESCE(o.object_id, 0)::bigint AS resource_associated_entity_id, 0 AS resource_lock_partition,
  CASE WHEN l.mode = 'AccessShareLock' THEN 'Sch-S' WHEN l.mode = 'RowShareLock' THEN 'IS' WHEN l.mode = 'RowExclusiveLock' THEN 'IX'
       WHEN l.mode IN ('ShareLock', 'ShareUpdateExclusiveLock') THEN 'S' WHEN l.mode = 'ShareRowExclusiveLock' THEN 'SIX' ELSE 'X' END::mssql.n60 AS request_mode,
  'LOCK'::mssql.n60 AS request_type, CASE WHEN l.granted THEN 'GRANT' ELSE 'WAIT' END::mssql.n60 AS request_status, 1::smallint AS request_reference_count,
  0 AS request_lifetime, (l.pid % 32768) AS request_session_id, 0 AS request_exec_context_id, 0 AS request_request_id,
  CASE l.locktype WHEN 'advisory' THEN 'SESSION' ELSE 'TRANSACTION' END::mssql.n60 AS request_owner_type, 0::bigint AS request_owner_id,
  NULL::uuid AS request_owner_guid, NULL::bytea AS lock_owner_address
FROM pg_locks l LEFT JOIN pg_class c ON c.oid = l.relation LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN mssql.schemas s ON s.pg_name = n.nspname LEFT JOIN mssql.objects o ON o.database_id = s.database_id AND o.schema_id = s.schema_id AND o.pg_name = c.relname
WHERE l.locktype IN ('advisory', 'relation', 'tuple') AND (l.locktype = 'advisory' OR o.object_id IS NOT NULL);

CREATE VIEW mssql_sys.dm_os_sys_info AS
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms_ticks, 2 AS cpu_count, 1 AS hyperthread_ratio, 1048576::bigint AS physical_memory_kb,
  1048576::bigint AS virtual_memory_kb, 131072::bigint AS committed_kb, 131072::bigint AS committed_target_kb, 512 AS max_workers_count, 2 AS scheduler_count,
  (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint AS sqlserver_start_time_ms_ticks,
  mssql.dt((pg_postmaster_start_time() AT TIME ZONE 'UTC'))::mssql.datetime AS sqlserver_start_time, 0 AS virtual_machine_type,
  'NONE'::mssql.n60 AS virtual_machine_type_desc;
CREATE VIEW mssql_sys.dm_hadr_database_replica_states AS SELECT 0 AS database_id WHERE false;

CREATE FUNCTION mssql.connectionproperty(property text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE lower(rtrim(property)) WHEN 'net_transport' THEN c.net_transport WHEN 'physical_net_transport' THEN c.net_transport
    WHEN 'protocol_type' THEN c.protocol_type WHEN 'auth_scheme' THEN c.auth_scheme WHEN 'local_net_address' THEN c.local_net_address
    WHEN 'local_tcp_port' THEN c.local_tcp_port::text WHEN 'client_net_address' THEN c.client_net_address END
  FROM mssql_sys.dm_exec_connections c WHERE c.session_id = pg_backend_pid() % 32768
$$;
