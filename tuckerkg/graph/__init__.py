"""The graph as tensors."""
