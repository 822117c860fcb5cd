"""The transport's tables: what they look like, and how they are made, found and dropped."""
