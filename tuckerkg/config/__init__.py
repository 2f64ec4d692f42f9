"""Settings and what is built from them."""
