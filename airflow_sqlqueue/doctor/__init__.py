"""What is wrong with a queue table, and the statements that mend it."""
