"""What is proved: the reduction, the bounds with their hypotheses, the constructions. Imports no engine."""
