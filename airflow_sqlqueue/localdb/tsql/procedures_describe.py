"""Describing statements before they run."""
