"""Whose turn it is: what a request costs, who may ask, small questions before large ones."""
