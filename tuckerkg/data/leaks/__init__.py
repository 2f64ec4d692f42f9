"""What gives held-out facts away, and what helps."""
