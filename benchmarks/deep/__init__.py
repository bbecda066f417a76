"""A pull that increases over the tasks, against a fixed one, on streams of images and tables: the benchmark.

``make bench SUITE=deep`` runs it. Read :mod:`~deep.protocol` first: it has the rules.
"""
