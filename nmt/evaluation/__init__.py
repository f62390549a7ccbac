"""Evaluation of translations: scores, confidence intervals, breakdowns and comparisons of systems."""
