"""Answers among very many entities: an index proposes some, which are then scored exactly."""
