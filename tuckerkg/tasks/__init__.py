"""Nodes and whole graphs put into classes, by the encoders that complete graphs."""
