"""Plans, values of @@variables, and the interpreter of statements."""
