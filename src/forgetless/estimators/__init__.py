"""Streaming estimators: ridge regression on mergeable statistics of rows, and the paper's schemes.

``rows`` and ``moments`` are the algebra, ``memory`` decides when to solve, and the estimators are
in ``ridge``, ``classifier``, ``logistic`` (for data) and ``schemes`` (for the paper).
"""
