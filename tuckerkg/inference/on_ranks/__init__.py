"""Ranks that ask one run together, each with a part of its entities."""
