"""Graphs where they live: SPARQL endpoints and Neo4j, read to a file, and decided facts written back."""
