-- Sessions, requests, transactions and locks of this moment.
CREATE VIEW mssql_sys.dm_exec_sessions AS
SELECT (a.pid % 32768)::smallint AS session_id, a.backend_start::timestamp::mssql.datetime AS login_time, a.client_hostname::mssql.sysname AS host_name,
  a.application_name::mssql.sysname AS program_name, 'sa'::mssql.sysname AS login_name,
  CASE WHEN a.state = 'active' THEN 'running' ELSE 'sleeping' END::mssql.n60 AS status, 1::mssql.bit AS is_user_process,
  (a.xact_start IS NOT NULL)::int AS open_transaction_count, 2::smallint AS transaction_isolation_level, 1::smallint AS database_id
FROM pg_stat_activity a WHERE a.backend_type = 'client backend';
CREATE VIEW mssql_sys.dm_exec_connections AS SELECT session_id, login_time AS connect_time, 'TCP'::mssql.n60 AS net_transport,
  'FALSE'::mssql.n60 AS encrypt_option, 'SQL'::mssql.n60 AS auth_scheme FROM mssql_sys.dm_exec_sessions;
CREATE VIEW mssql_sys.dm_exec_requests AS
SELECT (a.pid % 32768)::smallint AS session_id, 'running'::mssql.n60 AS status, 'SELECT'::mssql.n60 AS command,
  COALESCE((SELECT min(b) FROM unnest(pg_blocking_pids(a.pid)) b), 0)::smallint AS blocking_session_id, 1::smallint AS database_id,
  a.query_start::timestamp::mssql.datetime AS start_time
FROM pg_stat_activity a WHERE a.backend_type = 'client backend' AND a.state = 'active';
CREATE VIEW mssql_sys.sysprocesses AS SELECT session_id AS spid, status, host_name AS hostname, program_name, login_name AS loginame FROM mssql_sys.dm_exec_sessions;
CREATE VIEW mssql_sys.dm_tran_locks AS
SELECT CASE l.locktype WHEN 'advisory' THEN 'APPLICATION' WHEN 'relation' THEN 'OBJECT' WHEN 'tuple' THEN 'RID' ELSE 'METADATA' END::mssql.n60 AS resource_type,
  1 AS resource_database_id, COALESCE(o.object_id, 0)::bigint AS resource_associated_entity_id,
  CASE WHEN l.mode IN ('AccessShareLock', 'RowShareLock') THEN 'IS' WHEN l.mode = 'RowExclusiveLock' THEN 'IX'
       WHEN l.mode IN ('ShareLock', 'ShareUpdateExclusiveLock') THEN 'S' ELSE 'X' END::mssql.n60 AS request_mode,
  'LOCK'::mssql.n60 AS request_type, CASE WHEN l.granted THEN 'GRANT' ELSE 'WAIT' END::mssql.n60 AS request_status,
  (l.pid % 32768) AS request_session_id
FROM pg_locks l LEFT JOIN pg_class c ON c.oid = l.relation LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN mssql.schemas s ON s.pg_name = n.nspname LEFT JOIN mssql.objects o ON o.database_id = s.database_id AND o.schema_id = s.schema_id AND o.pg_name = c.relname
WHERE l.locktype IN ('advisory', 'relation', 'tuple') AND (l.locktype <> 'relation' OR o.object_id IS NOT NULL);
CREATE VIEW mssql_sys.dm_os_sys_info AS SELECT 2 AS cpu_count, 1048576::bigint AS physical_memory_kb, pg_postmaster_start_time()::timestamp::mssql.datetime AS sqlserver_start_time;
CREATE VIEW mssql_sys.dm_hadr_database_replica_states AS SELECT 0 AS database_id WHERE false;

