"""Ranks, metrics, probabilities."""
