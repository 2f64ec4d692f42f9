"""A run as tools of the Model Context Protocol, for programs that talk."""
