"""Trainings: those that are left, and the processes or the cluster that run them."""
