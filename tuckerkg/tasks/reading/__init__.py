"""Files of labels and of graphs to a task: what is read, what becomes a number, and what says the label."""
