"""Training on several processes: who they are, what each holds, and how they reach the same numbers together."""
