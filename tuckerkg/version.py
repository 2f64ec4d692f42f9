"""The version of the program; a run folder says which one made it."""

VERSION = "0.1.0"
