"""What may be asked over HTTP and what comes back: names, never ids."""
