"""Decorators of the TaskFlow API: each makes a task of one operator with the function that it stands before."""
