"""What the service knows of a run, piece by piece."""
