"""Files to rows of labels: text, RDF, Parquet."""
