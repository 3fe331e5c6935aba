"""Neighbour sampling on a GPU."""
