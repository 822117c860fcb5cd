-- body: read a message of the queue
SELECT [Body] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [RowVersion] = ?;

-- end: find the end of the queue
-- The result includes messages that others have locked: these cannot be returned, but must be reported.
SELECT MAX([RowVersion]) FROM {queue} WITH (NOLOCK);
