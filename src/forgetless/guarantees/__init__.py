"""Guarantees of a schedule: exact losses beside all bounds, computed upper bounds, and worst
collections.
"""
