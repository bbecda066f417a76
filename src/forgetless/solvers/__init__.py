"""Solvers of one-shot tasks, selected by cost."""
