"""What a training step minimizes on ranks, and how rows move: the loss over shards, its exchanges, the optimizer."""
