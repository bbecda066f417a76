"""Which schedule to use on given tasks."""
