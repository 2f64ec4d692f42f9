"""What an answer is: as ids in columns, as names in a list, and in files."""
