"""What can be seen of a service at work: counts and times, a line per request, traces."""
