"""What every other room stands on: the search space, the problem, the loop, trajectories, fronts, seeds."""
