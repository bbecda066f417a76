"""Learners compared on real streams: error against memory, every method tuned by the same rule."""
