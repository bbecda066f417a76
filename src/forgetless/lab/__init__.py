"""The laboratory: exact expectations and simulations of learners of one task after another."""
