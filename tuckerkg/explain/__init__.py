"""Why a fact is predicted."""
