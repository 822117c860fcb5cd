"""Plans, values of the system, the interpreter, results of procedures."""
