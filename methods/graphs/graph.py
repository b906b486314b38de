"""The neighbourhood graph over a table's rows, and the Gaussian prior that it defines.

    symbol    meaning
    W         symmetric edge weights, N x N: a kernel of the scaled features between neighbours, else 0
    D         diagonal matrix of W's row sums
    Lap       D - W
    K         [2 beta (Lap + I / sigma^2)]^-1, the covariance of the finite-set Gaussian process that
              corresponds to the graph (Zhu 2005; Zhang & Duh 2020, section 5.3)

For large sigma^2 and without noise, consider a connected part of the graph in which a row was observed. There
the posterior mean is the harmonic labelling -Lap[U,U]^-1 Lap[U,S] y_S (Zhu et al. 2003), and the posterior
covariance is Lap[U,U]^-1 / (2 beta). In the other parts the mean is 0, and the variance is about sigma^2 / (2
beta), divided by the number of rows.

The paper leaves the number of neighbours, beta and sigma^2 to "initial tuning". We chose the values that
match its tables best:

- EI: a seventh of the rows as neighbours, and at least 20, matches ftb of Table 3 best.
- EIF: 20 neighbours in tables of any size.
- EHVI: 20 neighbours. With 20 neighbours, 22 of the 36 graph-based cells of Table 4 are within 3 standard
  errors of the paper's cells (seed 0), and 15 with a seventh of the rows. The mean distance from the paper,
  as a logarithm, is 0.23 for fbp, 0.12 for fta and 0.22 for fto with 20 neighbours, and 0.28, 0.22 and 0.16
  with a seventh of the rows.
- beta = 0.5. It only scales the posterior's variance, so small changes have little effect, but large changes
  matter: beta = 0.005 raises ftb of GB_EI on ja-en from 28 to 46. EIF does not depend on beta.
- sigma^2 = 10^6, which is so large that its exact value has little effect.

On a grid, many rows are equally far away. All rows that tie with the last neighbour are included, so the
graph does not depend on the order of the rows.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import KDTree, cKDTree
from scipy.spatial.distance import cdist

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.kernels import Kernel
from hpobench_nmt.methods.surrogates.cholesky import inverse
from hpobench_nmt.methods.surrogates.columns import feature_owners

SIGMA_SQUARED = 1e6
BETA = 0.5
NEIGHBOURS = 20
_NEIGHBOUR_SHARE = 1 / 7
# For more rows, K alone would take more than 2 GiB, so the graph is sparse.
MAX_DENSE_ROWS = 16_384


def neighbours_for(n_rows: int, n_objectives: int = 1) -> int:
    """Number of nearest neighbours for EI or EHVI in a table of that many rows."""
    if n_objectives > 1 or n_rows > MAX_DENSE_ROWS:
        return NEIGHBOURS
    return max(NEIGHBOURS, round(_NEIGHBOUR_SHARE * n_rows))


def graph_laplacian(features: Floats, kernel: Kernel, n_neighbours: int) -> Floats:
    """Lap of the graph that joins two rows if one of them is among the other's nearest neighbours.

    The kernel of two rows' scaled features is the weight of their edge. A row is not its own neighbour. Rows
    that tie with the last of the n_neighbours are neighbours as well. Lap, of shape (N, N), is symmetric, and
    its rows sum to 0. The memory is O(N^2), so N is limited.
    """
    n_rows = len(features)
    if n_rows > MAX_DENSE_ROWS:
        raise ValueError(
            f"a graph over {n_rows:,} rows needs an N x N matrix ({8 * n_rows**2 / 2**30:.0f} GiB); "
            f"a dense one stops at {MAX_DENSE_ROWS:,} rows. Use hpobench_nmt.methods.graphs.sparse_graph."
        )
    last = min(n_neighbours, n_rows - 1)
    if last < 1:
        return np.zeros((n_rows, n_rows))
    # Distance to the last neighbour, shape (N, 1). The nearest row is the row itself, hence one more.
    reach = KDTree(features).query(features, k=[last + 1])[0]
    # Distances that should be equal differ in their last bits.
    return laplacian_of(cdist(features, features) <= reach * (1.0 + 1e-9), features, kernel)


def pairs_within(problem: Problem, steps: int) -> Rows:
    """Pairs (i, j), i < j, of rows that are at most `steps` grid steps apart, shape (E, 2), sorted.

    Neighbouring values of a hyperparameter in a table are one step apart, and so are any two categories. The
    steps between two rows are summed over the hyperparameters. An inactive hyperparameter counts with its
    default value.
    """
    owners = feature_owners(problem)
    places = np.empty(problem.features.shape)
    for j, column in enumerate(problem.features.T):
        if (owners == owners[j]).sum() > 1:  # two categories differ by 1 / sqrt(2) in each of two columns
            places[:, j] = column / math.sqrt(2)
        else:
            places[:, j] = np.unique(column, return_inverse=True)[1]
    pairs = cKDTree(places).query_pairs(steps + 0.25, p=1.0, output_type="ndarray")
    return np.unique(np.sort(pairs.astype(np.int64), axis=1), axis=0).reshape(-1, 2)


def laplacian_of(joined: Bools, features: Floats, kernel: Kernel) -> Floats:
    """Lap of the graph that joins rows i and j where joined[i, j] or joined[j, i], shape (N, N)."""
    edges = np.where(joined | joined.T, kernel(features, features), 0.0)
    np.fill_diagonal(edges, 0.0)
    edges = (edges + edges.T) / 2
    return np.asarray(np.diag(edges.sum(axis=1)) - edges)


def graph_covariance(laplacian: Floats, sigma_squared: float = SIGMA_SQUARED, beta: float = BETA) -> Floats:
    """K = [2 beta (Lap + I / sigma^2)]^-1, shape (N, N). O(N^3), once per table."""
    precision = 2.0 * beta * (laplacian + np.eye(len(laplacian)) / sigma_squared)
    return np.asarray(inverse(precision))
