"""From scores to probabilities: of the facts that were hidden as validation and test were, this share is true."""
