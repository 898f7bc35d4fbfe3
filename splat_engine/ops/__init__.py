"""Differentiable ops on torch tensors: one module a family, backends "cpu" and "reference"."""
