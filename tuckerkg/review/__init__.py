"""What people decide about predicted facts, kept beside the run."""
