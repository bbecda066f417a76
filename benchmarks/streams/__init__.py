"""Learners of any memory on real streams, tuned alike: ``python -m streams`` with this folder's parent on the path."""
