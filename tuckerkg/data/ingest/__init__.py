"""Files larger than memory to a folder of integer shards."""
