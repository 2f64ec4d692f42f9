"""Facts and entities that come after training."""
