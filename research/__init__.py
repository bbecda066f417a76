"""What stands beside the library: in the repository and the source archive, not in the wheel."""
