"""What a schedule does to tasks: simulated, or computed exactly."""
