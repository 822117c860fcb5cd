-- body: read a message of the queue
SELECT [Body] FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE [RowVersion] = ?;

-- end: find the end of the queue
-- With what others have locked: it cannot be returned, but it is to be reported.
SELECT MAX([RowVersion]) FROM {queue} WITH (NOLOCK);
