"""What everything else stands on: arrays, checks, decompositions, compiled code, files, tables."""
