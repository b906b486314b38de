"""Trainings: which are left, and the processes or the cluster that do them."""
