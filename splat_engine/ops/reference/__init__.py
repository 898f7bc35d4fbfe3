"""The plain torch statement of each op: readable, differentiable by autograd, the oracle of the tests."""
