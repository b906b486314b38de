"""What all other rooms build on: the search space, the problem, the loop, trajectories, fronts, seeds."""
