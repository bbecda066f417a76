"""Scikit-learn-style estimators that learn one task per ``partial_fit``."""
