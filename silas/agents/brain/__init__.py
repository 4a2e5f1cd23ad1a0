"""The offline brain: a model without a model, for a fresh machine and for every test."""
