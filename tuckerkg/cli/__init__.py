"""The command line. Heavy modules are imported inside the verbs, so that ``--help`` answers at once."""
