"""Data bus (claim check): payloads that messages name by keys, on a file share, S3 or Azure Blob Storage."""
