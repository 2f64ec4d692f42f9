"""Graphs as triples of ids: reading, splitting, checking."""
