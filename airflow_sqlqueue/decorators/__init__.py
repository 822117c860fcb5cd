"""Decorators of the TaskFlow API: each turns a function into a task of one operator."""
