"""Scores, exact baselines of random search, statistics over trials, and analyses of tables."""
