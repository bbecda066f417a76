"""The search for worst collections of tasks."""
