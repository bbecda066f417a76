"""Advice: the choice of a schedule for tasks."""
