"""Folders on disks and in object stores, and the files of batches in them."""
