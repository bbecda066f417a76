"""Streaming estimators: ridge regression on mergeable statistics of rows, and the paper's schemes.

``inputs`` checks tasks and holds rows to predict in their range. ``rows``, ``moments`` and
``systems`` are the algebra, ``memory`` decides when to solve, and ``base`` keeps the state of a
model, which ``files`` stores. The estimators are in ``ridge``, ``classifier``, ``logistic`` (for
data) and ``schemes`` (for the paper).
"""
