"""Connection to PostgreSQL, with its parsed texts and their plans, and the file of session data."""
