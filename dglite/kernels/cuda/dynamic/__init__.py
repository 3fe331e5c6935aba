"""Persistent processors on a GPU."""
