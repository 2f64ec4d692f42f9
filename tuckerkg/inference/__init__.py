"""Trained runs: evaluate, predict, score, add."""
