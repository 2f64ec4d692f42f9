"""Models: encoders, decoders, and what joins them."""
