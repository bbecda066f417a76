"""Engines: simulation and exact expectations of schedules on tasks."""
