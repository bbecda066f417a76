"""Arrays, linear algebra, threads, compilation and validation: what every part of the package
uses.
"""
