"""Who a session is, and what it may do."""
