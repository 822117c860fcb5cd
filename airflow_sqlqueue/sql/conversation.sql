-- waiting: look for replies in the queue
-- Headers only: whose reply a message is, they say; the column too, where versions 1 and 2 wrote it.
SELECT TOP (?) [RowVersion], [Headers], {correlation_id}
FROM {queue} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK{seek})
WHERE [RowVersion] > ? AND ([Expires] IS NULL OR [Expires] > GETUTCDATE()) ORDER BY [RowVersion];
