"""Facts that lie with their owners: what a rank reads of them, and the steps that all make of that together."""
