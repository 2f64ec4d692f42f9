"""Work in the background, and files that were sent for it."""
