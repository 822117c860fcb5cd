-- Logins, users, roles and permissions. The engine checks permissions with these
-- functions; "db, token, logins" is a security context: a database, the database principals that the user acts as
-- (itself, its roles, public), and the server principals that the login acts as.
-- Sources: the pages of GRANT, "Permissions hierarchy", "Database-level roles", "Metadata visibility configuration".

CREATE DOMAIN mssql.char1 AS text;
CREATE DOMAIN mssql.char4 AS text;

CREATE SEQUENCE mssql.login_ids START 267;
CREATE TABLE mssql.logins (
  principal_id int PRIMARY KEY DEFAULT nextval('mssql.login_ids'), name text NOT NULL, folded text NOT NULL UNIQUE,
  kind text NOT NULL DEFAULT 'S', sid bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()), password text,
  default_database text NOT NULL DEFAULT 'master', disabled smallint NOT NULL DEFAULT 0, policy smallint NOT NULL DEFAULT 1,
  created timestamp NOT NULL DEFAULT mssql.utcnow_dt(), modified timestamp NOT NULL DEFAULT mssql.utcnow_dt());
-- Only the server's command line has the administrator's password.
INSERT INTO mssql.logins (principal_id, name, folded, kind, sid) VALUES (1, 'sa', 'sa', 'S', '\x01'),
  (2, 'public', 'public', 'R', '\x02'), (3, 'sysadmin', 'sysadmin', 'R', '\x03'), (4, 'securityadmin', 'securityadmin', 'R', '\x04'),
  (5, 'serveradmin', 'serveradmin', 'R', '\x05'), (6, 'setupadmin', 'setupadmin', 'R', '\x06'), (7, 'processadmin', 'processadmin', 'R', '\x07'),
  (8, 'diskadmin', 'diskadmin', 'R', '\x08'), (9, 'dbcreator', 'dbcreator', 'R', '\x09'), (10, 'bulkadmin', 'bulkadmin', 'R', '\x0a');

CREATE TABLE mssql.server_role_members (
  role_id int NOT NULL REFERENCES mssql.logins ON DELETE CASCADE, member_id int NOT NULL REFERENCES mssql.logins ON DELETE CASCADE,
  PRIMARY KEY (role_id, member_id));
INSERT INTO mssql.server_role_members VALUES (3, 1);

-- The login that creates a database is its dbo.
ALTER TABLE mssql.databases ADD COLUMN owner_id int NOT NULL DEFAULT 1 REFERENCES mssql.logins;

CREATE TABLE mssql.principals (
  database_id int NOT NULL REFERENCES mssql.databases ON DELETE CASCADE, principal_id int NOT NULL, name text NOT NULL,
  folded text NOT NULL, kind text NOT NULL, default_schema text, login_id int, sid bytea, owner_id int,
  created timestamp NOT NULL DEFAULT mssql.utcnow_dt(), modified timestamp NOT NULL DEFAULT mssql.utcnow_dt(),
  PRIMARY KEY (database_id, principal_id), UNIQUE (database_id, folded));

CREATE TABLE mssql.role_members (
  database_id int NOT NULL, role_id int NOT NULL, member_id int NOT NULL, PRIMARY KEY (database_id, role_id, member_id),
  FOREIGN KEY (database_id, role_id) REFERENCES mssql.principals ON DELETE CASCADE,
  FOREIGN KEY (database_id, member_id) REFERENCES mssql.principals ON DELETE CASCADE);

-- class: 0 database, 1 object, 3 schema, 4 database principal, 100 server (with database_id 0). state: G, W (with grant option), D.
CREATE TABLE mssql.permissions (
  database_id int NOT NULL, class int NOT NULL, major_id int NOT NULL, grantee int NOT NULL, grantor int NOT NULL,
  permission text NOT NULL, state text NOT NULL, PRIMARY KEY (database_id, class, major_id, grantee, permission));
INSERT INTO mssql.permissions VALUES (0, 100, 0, 2, 1, 'VIEW ANY DATABASE', 'G');

CREATE TABLE mssql.fixed_permissions (grantee int NOT NULL, permission text NOT NULL, state text NOT NULL);
INSERT INTO mssql.fixed_permissions
SELECT grantee, permission, state FROM (VALUES
  (16384, 'G', ARRAY['CONTROL']),
  (16385, 'G', ARRAY['ALTER ANY USER', 'CREATE SCHEMA', 'CONNECT']),
  (16386, 'G', ARRAY['ALTER ANY ROLE', 'ALTER ANY APPLICATION ROLE', 'CREATE SCHEMA', 'VIEW DEFINITION']),
  (16387, 'G', ARRAY['ALTER ANY SCHEMA', 'CREATE DEFAULT', 'CREATE FUNCTION', 'CREATE PROCEDURE', 'CREATE QUEUE', 'CREATE RULE',
    'CREATE SYNONYM', 'CREATE TABLE', 'CREATE TYPE', 'CREATE VIEW', 'CHECKPOINT', 'REFERENCES']),
  (16389, 'G', ARRAY['BACKUP DATABASE', 'BACKUP LOG', 'CHECKPOINT']),
  (16390, 'G', ARRAY['SELECT']),
  (16391, 'G', ARRAY['INSERT', 'UPDATE', 'DELETE']),
  (16392, 'D', ARRAY['SELECT']),
  (16393, 'D', ARRAY['INSERT', 'UPDATE', 'DELETE'])) AS r(grantee, state, permissions), unnest(permissions) AS permission;

-- Each permission, its code, and the permissions that imply it in its own class and in the outer class.
CREATE TABLE mssql.permission_names (
  class int NOT NULL, name text NOT NULL, code text NOT NULL, implied_by text, outer_class int, outer_implied_by text,
  PRIMARY KEY (class, name));
INSERT INTO mssql.permission_names VALUES
  (1, 'SELECT', 'SL', 'CONTROL', 3, 'SELECT'), (1, 'INSERT', 'IN', 'CONTROL', 3, 'INSERT'), (1, 'UPDATE', 'UP', 'CONTROL', 3, 'UPDATE'),
  (1, 'DELETE', 'DL', 'CONTROL', 3, 'DELETE'), (1, 'EXECUTE', 'EX', 'CONTROL', 3, 'EXECUTE'),
  (1, 'REFERENCES', 'RF', 'CONTROL', 3, 'REFERENCES'), (1, 'ALTER', 'AL', 'CONTROL', 3, 'ALTER'),
  (1, 'VIEW DEFINITION', 'VW', 'CONTROL', 3, 'VIEW DEFINITION'), (1, 'VIEW CHANGE TRACKING', 'VWCT', 'CONTROL', 3, 'VIEW CHANGE TRACKING'),
  (1, 'TAKE OWNERSHIP', 'TO', 'CONTROL', 3, 'CONTROL'), (1, 'CONTROL', 'CL', NULL, 3, 'CONTROL'),
  (3, 'SELECT', 'SL', 'CONTROL', 0, 'SELECT'), (3, 'INSERT', 'IN', 'CONTROL', 0, 'INSERT'), (3, 'UPDATE', 'UP', 'CONTROL', 0, 'UPDATE'),
  (3, 'DELETE', 'DL', 'CONTROL', 0, 'DELETE'), (3, 'EXECUTE', 'EX', 'CONTROL', 0, 'EXECUTE'),
  (3, 'REFERENCES', 'RF', 'CONTROL', 0, 'REFERENCES'), (3, 'ALTER', 'AL', 'CONTROL', 0, 'ALTER ANY SCHEMA'),
  (3, 'VIEW DEFINITION', 'VW', 'CONTROL', 0, 'VIEW DEFINITION'), (3, 'VIEW CHANGE TRACKING', 'VWCT', 'CONTROL', 0, 'CONTROL'),
  (3, 'TAKE OWNERSHIP', 'TO', 'CONTROL', 0, 'CONTROL'), (3, 'CREATE SEQUENCE', 'CRSO', 'ALTER', 0, 'ALTER ANY SCHEMA'),
  (3, 'CONTROL', 'CL', NULL, 0, 'CONTROL'),
  (4, 'IMPERSONATE', 'IM', 'CONTROL', 0, 'CONTROL'), (4, 'ALTER', 'AL', 'CONTROL', 0, 'CONTROL'),
  (4, 'VIEW DEFINITION', 'VW', 'CONTROL', 0, 'VIEW DEFINITION'), (4, 'TAKE OWNERSHIP', 'TO', 'CONTROL', 0, 'CONTROL'),
  (4, 'CONTROL', 'CL', NULL, 0, 'CONTROL'),
  (0, 'SELECT', 'SL', 'CONTROL', 100, 'SELECT ALL USER SECURABLES'), (0, 'INSERT', 'IN', 'CONTROL', NULL, NULL),
  (0, 'UPDATE', 'UP', 'CONTROL', NULL, NULL), (0, 'DELETE', 'DL', 'CONTROL', NULL, NULL), (0, 'EXECUTE', 'EX', 'CONTROL', NULL, NULL),
  (0, 'REFERENCES', 'RF', 'CONTROL', NULL, NULL), (0, 'ALTER', 'AL', 'CONTROL', 100, 'ALTER ANY DATABASE'),
  (0, 'VIEW DEFINITION', 'VW', 'CONTROL', 100, 'VIEW ANY DEFINITION'), (0, 'TAKE OWNERSHIP', 'TO', 'CONTROL', NULL, NULL),
  (0, 'CONTROL', 'CL', NULL, 100, 'CONTROL SERVER'), (0, 'CONNECT', 'CO', 'CONTROL', 100, 'CONNECT ANY DATABASE'),
  (0, 'VIEW DATABASE STATE', 'VWDS', 'CONTROL', 100, 'VIEW SERVER STATE'),
  (0, 'VIEW DATABASE PERFORMANCE STATE', 'VDPS', 'VIEW DATABASE STATE', 100, 'VIEW SERVER PERFORMANCE STATE'),
  (0, 'VIEW DATABASE SECURITY STATE', 'VDSS', 'VIEW DATABASE STATE', 100, 'VIEW SERVER SECURITY STATE'),
  (0, 'ALTER ANY USER', 'ALUS', 'ALTER', NULL, NULL), (0, 'ALTER ANY ROLE', 'ALRL', 'ALTER', NULL, NULL),
  (0, 'ALTER ANY SCHEMA', 'ALSM', 'ALTER', NULL, NULL), (0, 'ALTER ANY APPLICATION ROLE', 'ALAR', 'ALTER', NULL, NULL),
  (0, 'ALTER ANY DATASPACE', 'ALDS', 'ALTER', NULL, NULL), (0, 'ALTER ANY DATABASE DDL TRIGGER', 'ALTG', 'ALTER', NULL, NULL),
  (0, 'CREATE TABLE', 'CRTB', 'ALTER', NULL, NULL), (0, 'CREATE VIEW', 'CRVW', 'ALTER', NULL, NULL),
  (0, 'CREATE PROCEDURE', 'CRPR', 'ALTER', NULL, NULL), (0, 'CREATE FUNCTION', 'CRFN', 'ALTER', NULL, NULL),
  (0, 'CREATE SYNONYM', 'CRSN', 'ALTER', NULL, NULL), (0, 'CREATE TYPE', 'CRTY', 'ALTER', NULL, NULL),
  (0, 'CREATE DEFAULT', 'CRDF', 'ALTER', NULL, NULL), (0, 'CREATE RULE', 'CRRU', 'ALTER', NULL, NULL),
  (0, 'CREATE QUEUE', 'CRQU', 'ALTER', NULL, NULL), (0, 'CREATE SCHEMA', 'CRSM', 'ALTER ANY SCHEMA', NULL, NULL),
  (0, 'CREATE ROLE', 'CRRL', 'ALTER ANY ROLE', NULL, NULL), (0, 'CREATE DATABASE', 'CRDB', 'CONTROL', 100, 'CREATE ANY DATABASE'),
  (0, 'BACKUP DATABASE', 'BADB', 'CONTROL', NULL, NULL), (0, 'BACKUP LOG', 'BALO', 'CONTROL', NULL, NULL),
  (0, 'CHECKPOINT', 'CP', 'CONTROL', NULL, NULL), (0, 'SHOWPLAN', 'SPLN', 'CONTROL', 100, 'ALTER TRACE'),
  (0, 'UNMASK', 'UMSK', 'CONTROL', NULL, NULL),
  (100, 'CONTROL SERVER', 'CL', NULL, NULL, NULL), (100, 'VIEW SERVER STATE', 'VWSS', 'ALTER SERVER STATE', NULL, NULL),
  (100, 'VIEW SERVER PERFORMANCE STATE', 'VSPS', 'VIEW SERVER STATE', NULL, NULL),
  (100, 'VIEW SERVER SECURITY STATE', 'VSSS', 'VIEW SERVER STATE', NULL, NULL),
  (100, 'ALTER SERVER STATE', 'ALSS', 'CONTROL SERVER', NULL, NULL), (100, 'VIEW ANY DATABASE', 'VWDB', 'VIEW ANY DEFINITION', NULL, NULL),
  (100, 'VIEW ANY DEFINITION', 'VWAD', 'CONTROL SERVER', NULL, NULL), (100, 'ALTER ANY DATABASE', 'ALDB', 'CONTROL SERVER', NULL, NULL),
  (100, 'CREATE ANY DATABASE', 'CRDB', 'ALTER ANY DATABASE', NULL, NULL), (100, 'ALTER ANY LOGIN', 'ALLG', 'CONTROL SERVER', NULL, NULL),
  (100, 'ALTER ANY CONNECTION', 'ALCO', 'CONTROL SERVER', NULL, NULL), (100, 'ALTER TRACE', 'ALTR', 'CONTROL SERVER', NULL, NULL),
  (100, 'CONNECT SQL', 'COSQ', 'CONTROL SERVER', NULL, NULL), (100, 'CONNECT ANY DATABASE', 'CADB', 'CONTROL SERVER', NULL, NULL),
  (100, 'IMPERSONATE ANY LOGIN', 'IAL', 'CONTROL SERVER', NULL, NULL),
  (100, 'SELECT ALL USER SECURABLES', 'SUS', 'CONTROL SERVER', NULL, NULL);

-- Pairs of permissions: the first implies the second, through all classes. Each permission implies itself.
CREATE TABLE mssql.implications (class int, permission text, by_class int, by_permission text, PRIMARY KEY (by_class, by_permission, class, permission));
INSERT INTO mssql.implications
WITH RECURSIVE steps AS (
  SELECT class, name, class AS by_class, implied_by AS by_name FROM mssql.permission_names WHERE implied_by IS NOT NULL
  UNION SELECT class, name, outer_class, outer_implied_by FROM mssql.permission_names WHERE outer_class IS NOT NULL),
reached(class, name, by_class, by_name) AS (
  SELECT class, name, class, name FROM mssql.permission_names
  UNION SELECT r.class, r.name, s.by_class, s.by_name FROM reached r JOIN steps s ON s.class = r.by_class AND s.name = r.by_name)
SELECT * FROM reached;

CREATE FUNCTION mssql.new_database() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO mssql.principals (database_id, principal_id, name, folded, kind, default_schema, login_id, sid)
  SELECT NEW.database_id, id, name, mssql.fold(name), kind, schema, login, sid
  FROM (VALUES (0, 'public', 'R', NULL, NULL::int, NULL::bytea), (1, 'dbo', 'S', 'dbo', 1, '\x01'), (2, 'guest', 'S', 'guest', NULL, '\x00'),
    (3, 'INFORMATION_SCHEMA', 'S', NULL, NULL, NULL), (4, 'sys', 'S', NULL, NULL, NULL), (16384, 'db_owner', 'R', NULL, NULL, NULL),
    (16385, 'db_accessadmin', 'R', NULL, NULL, NULL), (16386, 'db_securityadmin', 'R', NULL, NULL, NULL), (16387, 'db_ddladmin', 'R', NULL, NULL, NULL),
    (16389, 'db_backupoperator', 'R', NULL, NULL, NULL), (16390, 'db_datareader', 'R', NULL, NULL, NULL), (16391, 'db_datawriter', 'R', NULL, NULL, NULL),
    (16392, 'db_denydatareader', 'R', NULL, NULL, NULL), (16393, 'db_denydatawriter', 'R', NULL, NULL, NULL))
    AS p(id, name, kind, schema, login, sid);
  INSERT INTO mssql.role_members VALUES (NEW.database_id, 16384, 1);
  INSERT INTO mssql.permissions VALUES (NEW.database_id, 0, 0, 1, 1, 'CONNECT', 'G');
  -- guest may enter master, tempdb and msdb; elsewhere it is disabled until it is granted CONNECT.
  INSERT INTO mssql.permissions SELECT NEW.database_id, 0, 0, 2, 1, 'CONNECT', 'G' WHERE NEW.database_id IN (1, 2, 4);
  RETURN NULL;
END $$;
CREATE TRIGGER principals AFTER INSERT ON mssql.databases FOR EACH ROW EXECUTE FUNCTION mssql.new_database();

-- Permissions on an object end with the object.
CREATE FUNCTION mssql.forget_permissions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM mssql.permissions WHERE database_id = OLD.database_id AND CASE TG_TABLE_NAME
    WHEN 'objects' THEN class = 1 AND major_id = (to_jsonb(OLD)->>'object_id')::int
    WHEN 'schemas' THEN class = 3 AND major_id = (to_jsonb(OLD)->>'schema_id')::int
    WHEN 'principals' THEN grantee = (to_jsonb(OLD)->>'principal_id')::int OR class = 4 AND major_id = (to_jsonb(OLD)->>'principal_id')::int
    ELSE true END;
  RETURN NULL;
END $$;
CREATE TRIGGER permissions AFTER DELETE ON mssql.objects FOR EACH ROW EXECUTE FUNCTION mssql.forget_permissions();
CREATE TRIGGER permissions AFTER DELETE ON mssql.schemas FOR EACH ROW EXECUTE FUNCTION mssql.forget_permissions();
CREATE TRIGGER permissions AFTER DELETE ON mssql.principals FOR EACH ROW EXECUTE FUNCTION mssql.forget_permissions();
CREATE TRIGGER permissions AFTER DELETE ON mssql.databases FOR EACH ROW EXECUTE FUNCTION mssql.forget_permissions();

-- The principals that a database principal acts as: itself, its roles, their roles, and public.
CREATE FUNCTION mssql.token(db int, principal int) RETURNS int[] LANGUAGE sql STABLE AS $$
  WITH RECURSIVE r(id) AS (SELECT principal UNION SELECT m.role_id FROM mssql.role_members m JOIN r ON m.member_id = r.id WHERE m.database_id = db)
  SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM r UNION SELECT 0) AS s;
$$;
CREATE FUNCTION mssql.server_token(login int) RETURNS int[] LANGUAGE sql STABLE STRICT AS $$
  SELECT array_agg(id ORDER BY id) FROM (SELECT login AS id UNION SELECT 2 UNION SELECT role_id FROM mssql.server_role_members WHERE member_id = login) AS s;
$$;

-- Grants and denials that apply to a context, with all permissions that they imply.
CREATE FUNCTION mssql.grants(db int, token int[], logins int[])
RETURNS TABLE(class int, permission text, at_class int, major_id int, state text) LANGUAGE sql STABLE AS $$
  SELECT i.class, i.permission, p.class, p.major_id, p.state
  FROM (SELECT class, major_id, permission, state FROM mssql.permissions
        WHERE database_id = db AND grantee = ANY(token) OR database_id = 0 AND grantee = ANY(logins)
        UNION ALL SELECT 0, 0, permission, state FROM mssql.fixed_permissions WHERE grantee = ANY(token)) AS p
  JOIN mssql.implications i ON i.by_class = p.class AND i.by_permission = p.permission;
$$;

-- Whether a context has a permission: sysadmin and dbo have all, owners all on their own objects, others the granted and not denied ones.
CREATE FUNCTION mssql.allowed(db int, token int[], logins int[], wanted_class int, major int, wanted text, grantable boolean DEFAULT false)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE target int := major; in_schema int; owner int;
BEGIN
  IF 3 = ANY(logins) THEN RETURN true; END IF;
  IF wanted_class <> 100 AND 1 = ANY(token) THEN RETURN true; END IF;
  IF wanted_class = 1 THEN
    SELECT COALESCE(NULLIF(o.parent_object_id, 0), o.object_id), o.schema_id, s.principal_id INTO target, in_schema, owner
    FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id) WHERE o.database_id = db AND o.object_id = major;
    IF NOT FOUND THEN RETURN false; END IF;
  ELSIF wanted_class = 3 THEN
    SELECT principal_id INTO owner FROM mssql.schemas WHERE database_id = db AND schema_id = major;
  ELSIF wanted_class = 4 THEN
    SELECT owner_id INTO owner FROM mssql.principals WHERE database_id = db AND principal_id = major;
  END IF;
  IF owner = ANY(token) THEN RETURN true; END IF;
  RETURN COALESCE((SELECT bool_and(g.state <> 'D') AND (NOT grantable OR bool_or(g.state = 'W' OR g.control))
    FROM (SELECT *, EXISTS (SELECT 1 FROM mssql.grants(db, token, logins) c WHERE c.class = wanted_class AND c.permission IN ('CONTROL', 'CONTROL SERVER')
        AND c.state <> 'D' AND (c.at_class IN (0, 100) OR c.at_class = wanted_class AND c.major_id = target OR c.at_class = 3 AND c.major_id = in_schema)) AS control
      FROM mssql.grants(db, token, logins)) AS g
    WHERE g.class = wanted_class AND g.permission = wanted
      AND (g.at_class IN (0, 100) OR g.at_class = wanted_class AND g.major_id = target OR g.at_class = 3 AND g.major_id = in_schema)), false);
END $$;

-- The objects that a context may see: those that it owns or has a permission on, and their parts. With "source": those whose
-- definition it may read.
CREATE FUNCTION mssql.visible(db int, token int[], logins int[], source boolean DEFAULT false) RETURNS SETOF int LANGUAGE sql STABLE AS $$
  WITH g AS MATERIALIZED (SELECT DISTINCT permission, at_class, major_id, state FROM mssql.grants(db, token, logins) WHERE class = 1),
  rights AS (
    SELECT o.object_id, g.permission, bool_and(g.state <> 'D') AS held
    FROM mssql.objects o JOIN g ON g.at_class IN (0, 100) OR g.at_class = 1 AND g.major_id = o.object_id OR g.at_class = 3 AND g.major_id = o.schema_id
    WHERE o.database_id = db AND o.parent_object_id = 0 AND (g.permission IN ('ALTER', 'CONTROL', 'VIEW DEFINITION', 'TAKE OWNERSHIP')
      OR CASE WHEN o.type IN ('P', 'FN') THEN g.permission = 'EXECUTE'
         ELSE g.permission IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'REFERENCES') END)
    GROUP BY 1, 2),
  seen AS MATERIALIZED (
    SELECT object_id FROM rights GROUP BY 1
    HAVING bool_or(held AND (NOT source OR permission IN ('ALTER', 'CONTROL', 'VIEW DEFINITION', 'TAKE OWNERSHIP')))
      AND NOT bool_or(permission = 'VIEW DEFINITION' AND NOT held)
    UNION SELECT o.object_id FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id)
    WHERE o.database_id = db AND (s.principal_id = ANY(token) OR 1 = ANY(token)))
  SELECT object_id FROM seen
  UNION SELECT o.object_id FROM mssql.objects o JOIN seen ON o.parent_object_id = seen.object_id WHERE o.database_id = db;
$$;
CREATE FUNCTION mssql.seen(db int, token int[], logins int[], id int, source boolean DEFAULT false) RETURNS int LANGUAGE sql STABLE
  RETURN CASE WHEN id < 0 OR EXISTS (SELECT 1 FROM mssql.visible(db, token, logins, source) v WHERE v = id) THEN id END;
CREATE FUNCTION mssql.seen_name(db int, token int[], logins int[], name text) RETURNS text LANGUAGE sql STABLE
  RETURN CASE WHEN mssql.seen(db, token, logins, mssql.object_id(db, name, NULL)) IS NOT NULL THEN name END;

-- A name without a schema, with the default schema added if the default schema has such an object.
CREATE FUNCTION mssql.in_schema(db int, name text, wanted text) RETURNS text LANGUAGE sql STABLE
  RETURN CASE WHEN cardinality(mssql.parse_name(name)) = 1 AND mssql.object_id(db, quote_ident(wanted) || '.' || name, NULL) IS NOT NULL
    THEN quote_ident(wanted) || '.' || name ELSE name END;

-- The user of a login in a database; no row if the login may not enter.
CREATE FUNCTION mssql.identify(db int, login int)
RETURNS TABLE(user_id int, name text, default_schema text, token int[], logins int[]) LANGUAGE plpgsql STABLE AS $$
DECLARE server int[] := mssql.server_token(login); found int;
BEGIN
  SELECT CASE WHEN 3 = ANY(server) OR d.owner_id = login THEN 1 ELSE (SELECT p.principal_id FROM mssql.principals p
    WHERE p.database_id = db AND p.login_id = login) END INTO found FROM mssql.databases d WHERE d.database_id = db;
  IF found IS NULL THEN found := 2; END IF;
  IF NOT mssql.allowed(db, mssql.token(db, found), server, 0, 0, 'CONNECT') THEN RETURN; END IF;
  RETURN QUERY SELECT p.principal_id, p.name, COALESCE(p.default_schema, 'dbo'), mssql.token(db, found), server
    FROM mssql.principals p WHERE p.database_id = db AND p.principal_id = found;
END $$;

-- Functions of T-SQL over principals.
CREATE FUNCTION mssql.user_name(db int, id int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT name FROM mssql.principals WHERE database_id = db AND principal_id = id);
CREATE FUNCTION mssql.principal_id(db int, wanted text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT principal_id FROM mssql.principals WHERE database_id = db AND folded = mssql.fold(wanted));
CREATE FUNCTION mssql.login_name(id int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT name FROM mssql.logins WHERE principal_id = id);
CREATE FUNCTION mssql.login_id(wanted text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT principal_id FROM mssql.logins WHERE folded = mssql.fold(wanted));
CREATE FUNCTION mssql.is_member(db int, token int[], role text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT (principal_id = ANY(token))::int FROM mssql.principals WHERE database_id = db AND folded = mssql.fold(role) AND kind = 'R');
CREATE FUNCTION mssql.is_rolemember(db int, role text, member text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT mssql.is_member(db, mssql.token(db, principal_id), role) FROM mssql.principals WHERE database_id = db AND folded = mssql.fold(member));
CREATE FUNCTION mssql.is_server_member(token int[], role text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT (principal_id = ANY(token) OR 3 = ANY(token))::int FROM mssql.logins WHERE folded = mssql.fold(role) AND kind = 'R');
CREATE FUNCTION mssql.has_access(db int, login int, wanted text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT EXISTS (SELECT 1 FROM mssql.identify(database_id, login))::int FROM mssql.databases WHERE folded = mssql.fold(wanted));
CREATE VIEW mssql_sys.database_principals AS
SELECT database_id AS _db, name::mssql.sysname AS name, principal_id, kind::mssql.char1 AS type,
  CASE kind WHEN 'R' THEN 'DATABASE_ROLE' ELSE 'SQL_USER' END::mssql.n60 AS type_desc, default_schema::mssql.sysname AS default_schema_name,
  created::mssql.datetime AS create_date, modified::mssql.datetime AS modify_date, CASE kind WHEN 'R' THEN COALESCE(owner_id, 1) END AS owning_principal_id,
  sid, (principal_id >= 16384 AND principal_id < 16400)::int::mssql.bit AS is_fixed_role,
  (login_id IS NOT NULL)::int::mssql.tinyint AS authentication_type,
  CASE WHEN login_id IS NOT NULL THEN 'INSTANCE' ELSE 'NONE' END::mssql.n60 AS authentication_type_desc,
  NULL::mssql.sysname AS default_language_name, NULL::int AS default_language_lcid
FROM mssql.principals;
CREATE VIEW mssql_sys.database_role_members AS
SELECT database_id AS _db, role_id AS role_principal_id, member_id AS member_principal_id FROM mssql.role_members;
CREATE VIEW mssql_sys.database_permissions AS
SELECT p.database_id AS _db, p.class::mssql.tinyint AS class,
  CASE p.class WHEN 0 THEN 'DATABASE' WHEN 1 THEN 'OBJECT_OR_COLUMN' WHEN 3 THEN 'SCHEMA' ELSE 'DATABASE_PRINCIPAL' END::mssql.n60 AS class_desc,
  p.major_id, 0 AS minor_id, p.grantee AS grantee_principal_id, p.grantor AS grantor_principal_id, rpad(n.code, 4)::mssql.char4 AS type,
  p.permission::mssql.sysname AS permission_name, p.state::mssql.char1 AS state,
  CASE p.state WHEN 'G' THEN 'GRANT' WHEN 'W' THEN 'GRANT_WITH_GRANT_OPTION' ELSE 'DENY' END::mssql.n60 AS state_desc
FROM mssql.permissions p JOIN mssql.permission_names n ON n.class = p.class AND n.name = p.permission WHERE p.class <> 100;
CREATE VIEW mssql_sys.server_principals AS
SELECT name::mssql.sysname AS name, principal_id, sid, kind::mssql.char1 AS type,
  CASE kind WHEN 'R' THEN 'SERVER_ROLE' ELSE 'SQL_LOGIN' END::mssql.n60 AS type_desc, disabled::mssql.bit AS is_disabled,
  created::mssql.datetime AS create_date, modified::mssql.datetime AS modify_date,
  CASE kind WHEN 'S' THEN default_database END::mssql.sysname AS default_database_name,
  CASE kind WHEN 'S' THEN 'us_english' END::mssql.sysname AS default_language_name, NULL::int AS credential_id,
  CASE kind WHEN 'R' THEN 1 END AS owning_principal_id, (kind = 'R')::int::mssql.bit AS is_fixed_role
FROM mssql.logins;
CREATE VIEW mssql_sys.sql_logins AS
SELECT s.name, s.principal_id, s.sid, s.type, s.type_desc, s.is_disabled, s.create_date, s.modify_date, s.default_database_name,
  s.default_language_name, s.credential_id, l.policy::mssql.bit AS is_policy_checked, 0::mssql.bit AS is_expiration_checked, NULL::bytea AS password_hash
FROM mssql_sys.server_principals s JOIN mssql.logins l USING (principal_id) WHERE l.kind = 'S';
CREATE VIEW mssql_sys.server_role_members AS
SELECT role_id AS role_principal_id, member_id AS member_principal_id FROM mssql.server_role_members;
CREATE VIEW mssql_sys.server_permissions AS
SELECT 100::mssql.tinyint AS class, 'SERVER'::mssql.n60 AS class_desc, 0 AS major_id, 0 AS minor_id, p.grantee AS grantee_principal_id,
  p.grantor AS grantor_principal_id, rpad(n.code, 4)::mssql.char4 AS type, p.permission::mssql.sysname AS permission_name, p.state::mssql.char1 AS state,
  CASE p.state WHEN 'G' THEN 'GRANT' WHEN 'W' THEN 'GRANT_WITH_GRANT_OPTION' ELSE 'DENY' END::mssql.n60 AS state_desc
FROM mssql.permissions p JOIN mssql.permission_names n ON n.class = p.class AND n.name = p.permission WHERE p.class = 100;

CREATE OR REPLACE VIEW mssql_information_schema.schemata AS
SELECT s.database_id AS _db, d.name::mssql.sysname AS "catalog_name", s.name::mssql.sysname AS "schema_name", p.name::mssql.sysname AS "schema_owner",
  'iso_1'::mssql.sysname AS "default_character_set_name" FROM mssql.schemas s JOIN mssql.databases d USING (database_id)
  JOIN mssql.principals p USING (database_id, principal_id);
