-- page: look through the queue
-- Headers without bodies: a look at an error queue must not read gigabytes of what it does not show.
SELECT TOP (?) [Id], [RowVersion], [Headers], DATALENGTH([Body])
FROM {queue} WITH (READPAST, READCOMMITTEDLOCK) WHERE [RowVersion] > ? AND [RowVersion] <= ? ORDER BY [RowVersion];

-- body: read a message of the queue
SELECT [Body] FROM {queue} WITH (READPAST, READCOMMITTEDLOCK) WHERE [RowVersion] = ?;

-- end: find the end of the queue
-- With what others have locked: it cannot be returned, but it is to be reported.
SELECT MAX([RowVersion]) FROM {queue} WITH (NOLOCK);
