"""A connection to PostgreSQL with what belongs to it: texts and their plans, and its file of session data."""
