"""Compute kernels with their gradients."""
