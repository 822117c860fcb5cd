-- subscribe: write the subscription to the table
-- HOLDLOCK, because a MERGE without it can insert the same row twice; TABLOCK as in endpoints, which prevents deadlocks
-- on key ranges when many start together (docs/transport/queue-tables.md, "Subscriptions").
MERGE {table} WITH (HOLDLOCK, TABLOCK) AS target
USING (SELECT ? AS [QueueAddress], ? AS [Endpoint], ? AS [Topic]) AS source
ON target.[Endpoint] = source.[Endpoint] AND target.[Topic] = source.[Topic]
WHEN MATCHED AND target.[QueueAddress] <> source.[QueueAddress] THEN
    UPDATE SET [QueueAddress] = source.[QueueAddress]
WHEN NOT MATCHED THEN
    INSERT ([QueueAddress], [Endpoint], [Topic]) VALUES (source.[QueueAddress], source.[Endpoint], source.[Topic]);
SELECT @@ROWCOUNT;

-- unsubscribe: delete the subscription from the table
DELETE FROM {table} WHERE [Endpoint] = ? AND [Topic] = ?;
SELECT @@ROWCOUNT;

-- list: list the subscriptions of the table
SELECT [Topic], [Endpoint], [QueueAddress] FROM {table} WITH (READCOMMITTEDLOCK) ORDER BY [Topic], [Endpoint];

-- subscribers: find the subscribers in the table
SELECT DISTINCT [QueueAddress] FROM {table} WITH (READCOMMITTEDLOCK) WHERE [Topic] IN ({topics})
ORDER BY [QueueAddress];

-- address: find the queue of a subscription in the table
SELECT [QueueAddress] FROM {table} WITH (READCOMMITTEDLOCK) WHERE [Endpoint] = ? AND [Topic] = ?;
