-- lock: lock the private queue
-- The session owns the lock: the server releases it when the connection of the process that waits for the reply ends.
DECLARE @result int;
EXEC @result = {catalog}.sys.sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0;
SELECT @result;

-- release: release the lock on the private queue
EXEC {catalog}.sys.sp_releaseapplock @Resource = ?, @LockOwner = 'Session';

-- list: list the private queues of the schema
SELECT t.name FROM {catalog}.sys.tables AS t
JOIN {catalog}.sys.schemas AS s ON s.schema_id = t.schema_id
WHERE s.name = ? AND LEFT(t.name, ?) = ?
ORDER BY t.name;
