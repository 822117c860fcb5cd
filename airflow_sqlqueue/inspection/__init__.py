"""What is wrong with a queue table, and the statements that fix it."""
