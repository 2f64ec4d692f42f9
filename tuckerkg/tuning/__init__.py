"""Settings are searched for, on validation alone."""
