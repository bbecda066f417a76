"""Computer-assisted proofs of the constants that hold for every k."""
