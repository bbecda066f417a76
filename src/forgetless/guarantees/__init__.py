"""What is certain of a schedule: the exact loss beside every bound, and the worst collections known."""
