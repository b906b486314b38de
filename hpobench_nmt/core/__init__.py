"""The ground of every other room: the search space, the problem, the loop, trajectories, fronts, seeds."""
