"""Session and its parts: transactions, application locks, arguments of procedures."""
