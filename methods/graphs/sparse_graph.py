"""The prior of the neighbourhood graph for tables that are too large for a dense matrix.

    symbol    meaning
    A         2 beta (Lap + I / sigma^2), sparse; K = A^-1 is the prior covariance of methods/graphs/graph.py
    C         a connected part of the graph, with c rows; K is 0 between parts
    P         K restricted to C, minus its mean, sigma^2 / (2 beta c), so that each row sums to 0

A row of K solves A x = e_i within a part, by conjugate gradients to within 1% of the diagonal of P. The
preconditioner has two levels: the diagonal of A, and an exact solve for vectors that are constant on chunks
of rows that lie close together (16 rows or more, at most 1,000 chunks). With it, the number of iterations is
about ten, nearly independent of the number of rows. Parts with few rows are inverted instead.

The diagonal of K is the sum of two diagonals: that of the solution on the chunks, which is known, and that of
the remainder, which is estimated by probing (Tang & Saad 2012). Rows are coloured so that rows within two
edges of each other differ in colour. For each colour, A x = z is solved for vectors z with random signs on
the colour's rows. The error is the contribution of other rows of the same colour. Its standard deviation,
relative to the diagonal of P, is about 3% for points scattered in six dimensions. In two dimensions it is a
third, because the graph's correlations reach far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.methods.kernels import Kernel
from hpobench_nmt.methods.surrogates.cholesky import inverse

# A group of ties with more rows than this many times the requested neighbours is not included as a whole.
TIES = 8
_TOLERANCE = 1e-2
# The most solves for the diagonal, unless there are more colours: each colour has at least one solve.
_PROBES = 200
_MAX_ITERATIONS = 1000
_CHUNK_ROWS = 16
_MAX_CHUNKS = 1000
_INVERTED_ROWS = 256
_QUERY_ROWS = 4096


def nearest_pairs(features: Floats, n_neighbours: int) -> Rows:
    """Pairs (i, j), i < j, of rows of which one is among the other's nearest neighbours, (E, 2), sorted.

    Rows that tie with the last neighbour are neighbours as well, unless more than TIES * n_neighbours rows
    are equally near or nearer. Then all rows of that last tie are left out if other rows are nearer, and
    otherwise those that the k-d tree finds last. N x N distances are never stored.
    """
    n_rows = len(features)
    wanted = min(n_neighbours, n_rows - 1)
    tree = cKDTree(features)
    found: list[Rows] = []
    pending = np.arange(n_rows)
    asked = min(2 * n_neighbours + 2, n_rows)
    most = min(TIES * n_neighbours + 2, n_rows)
    while wanted > 0 and len(pending):
        later = []
        for start in range(0, len(pending), _QUERY_ROWS):
            rows = pending[start : start + _QUERY_ROWS]
            distances, others = tree.query(features[rows], asked)
            itself = others == rows[:, None]
            # Among many identical rows, the search may not return the row itself. Then the last result is
            # dropped.
            itself[~itself.any(axis=1), -1] = True
            distances = distances[~itself].reshape(len(rows), asked - 1)
            others = others[~itself].reshape(len(rows), asked - 1)
            # Distances that should be equal differ in their last bits.
            reach = distances[:, wanted - 1 : wanted] * (1.0 + 1e-9)
            chosen = distances <= reach
            open_end = chosen[:, -1] & (asked < n_rows)
            if asked >= most:
                nearer = distances < distances[:, -1:] * (1.0 - 1e-9)
                cut = open_end & nearer.any(axis=1)
                chosen[cut] = nearer[cut]
                open_end[:] = False
            later.append(rows[open_end])
            kept = chosen & ~open_end[:, None]
            found.append(np.column_stack([np.repeat(rows, kept.sum(axis=1)), others[kept]]))
        pending = np.concatenate(later)
        asked = min(2 * asked, most)
    pairs = np.concatenate(found) if found else np.empty((0, 2), dtype=np.int64)
    return np.unique(np.sort(pairs, axis=1), axis=0)


def weights_of(pairs: Rows, features: Floats, kernel: Kernel) -> sparse.csr_array:
    """Symmetric edge weights of pairs (i, j), i < j, sorted, shape (E, 2): the kernel."""
    n_rows = len(features)
    starts = np.searchsorted(pairs[:, 0], np.arange(n_rows + 1))
    weights = np.empty(len(pairs))
    for i in np.unique(pairs[:, 0]).tolist():
        part = slice(starts[i], starts[i + 1])
        weights[part] = kernel(features[i : i + 1], features[pairs[part, 1]])[0]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    shape = (n_rows, n_rows)
    return sparse.csr_array((np.concatenate([weights, weights]), (both[:, 0], both[:, 1])), shape=shape)


class SparseGraphPrior:
    """K = [2 beta (Lap + I / sigma^2)]^-1, one row at a time. The top of this file states its accuracy.

    It takes some hundreds of solves for all colours, and one solve for each row that is read. The weights W,
    shape (N, N), are symmetric. The features, shape (N, H), determine which rows form a chunk.
    """

    def __init__(
        self, weights: sparse.csr_array, sigma_squared: float, beta: float, features: Floats
    ) -> None:
        n_rows = len(features)
        n_parts, part_of = connected_components(weights, directed=False)
        # Rows are ordered by part, and within a part by the leaves of a k-d tree, so that chunks are compact.
        near = cKDTree(features).indices
        self._order = near[np.argsort(part_of[near], kind="stable")]
        self._place = np.empty(n_rows, dtype=np.int64)
        self._place[self._order] = np.arange(n_rows)
        ordered = weights[self._order][:, self._order]
        degrees = np.asarray(ordered.sum(axis=1)).ravel()
        precision = sparse.csr_array(
            2.0 * beta * (sparse.diags_array(degrees + 1.0 / sigma_squared) - ordered)
        )
        self._level = sigma_squared / (2.0 * beta)
        self._starts = np.searchsorted(part_of[self._order], np.arange(n_parts + 1))
        rng = np.random.default_rng(0)
        self._parts: list[_Part | Floats] = []
        diagonal = np.empty(n_rows)
        for a, b in zip(self._starts[:-1].tolist(), self._starts[1:].tolist(), strict=True):
            block = sparse.csr_array(precision[a:b, a:b])
            if b - a <= _INVERTED_ROWS:
                inverted = inverse(block.toarray())
                self._parts.append(inverted)
                diagonal[a:b] = inverted.diagonal()
            else:
                part = _part(block)
                self._parts.append(part)
                diagonal[a:b] = _probed_diagonal(part, rng)
        self.diagonal: Floats = diagonal[self._place]

    def row(self, i: int) -> Floats:
        """K[i], shape (N,)."""
        place = int(self._place[i])
        which = int(np.searchsorted(self._starts, place, side="right")) - 1
        a, b = int(self._starts[which]), int(self._starts[which + 1])
        part = self._parts[which]
        if isinstance(part, _Part):
            # The mean is subtracted, because its solution is known, and is far larger than the rest, which is
            # solved.
            unit = np.full(b - a, -1.0 / (b - a))
            unit[place - a] += 1.0
            solved = part.solve(unit) + self._level / (b - a)
        else:
            solved = part[place - a]
        row = np.zeros(len(self._order))
        row[self._order[a:b]] = solved
        return row


@dataclass(frozen=True, eq=False)
class _Part:
    """A on one connected part, and its preconditioner."""

    precision: sparse.csr_array  # A, shape (c, c)
    inverse_diagonal: Floats  # 1 / diag(A), shape (c,)
    chunks: Rows  # first row of each chunk, and c, shape (q + 1,)
    coarse: Floats  # (Z' A Z)^-1, Z being the indicators of the chunks, shape (q, q)

    def solve(self, b: Floats) -> Floats:
        """A^-1 b, shape (c,)."""
        A = self.precision
        return _conjugate_gradients(
            A.data, A.indices, A.indptr, self.inverse_diagonal, self.chunks, self.coarse, b
        )


def _part(precision: sparse.csr_array) -> _Part:
    n_rows = precision.shape[0]
    n_chunks = min(-(-n_rows // _CHUNK_ROWS), _MAX_CHUNKS)
    chunks = np.linspace(0, n_rows, n_chunks + 1).astype(np.int64)
    columns = np.repeat(np.arange(n_chunks), np.diff(chunks))
    indicator = sparse.csr_array((np.ones(n_rows), (np.arange(n_rows), columns)), shape=(n_rows, n_chunks))
    coarse = inverse((indicator.T @ precision @ indicator).toarray(order="C"))
    return _Part(precision, 1.0 / precision.diagonal(), chunks, coarse)


def _probed_diagonal(part: _Part, rng: np.random.Generator) -> Floats:
    """An estimate of the diagonal of K on a part, shape (c,)."""
    A = part.precision
    n_rows = len(part.inverse_diagonal)
    colours = _colours(A.indices, A.indptr)
    n_colours = int(colours.max()) + 1
    rounds = max(1, _PROBES // n_colours)
    sizes = np.diff(part.chunks)
    remainder = np.zeros(n_rows)
    for _ in range(rounds):
        signs = np.where(rng.random(n_rows) < 0.5, -1.0, 1.0)
        for colour in range(n_colours):
            probe = np.where(colours == colour, signs, 0.0)
            probe -= probe.mean()
            smooth = (part.coarse * np.add.reduceat(probe, part.chunks[:-1])).sum(axis=1)
            rows = np.flatnonzero(colours == colour)
            local = part.solve(probe) - np.repeat(smooth, sizes)
            remainder[rows] += local[rows] * signs[rows] / rounds
    return np.repeat(part.coarse.diagonal(), sizes) + np.maximum(remainder, 0.0)


@compiled()
def _colours(indices: NDArray[np.int32], indptr: NDArray[np.int32]) -> Rows:
    """The smallest colour for each row that no earlier row within two edges has."""
    n = len(indptr) - 1
    colours = np.full(n, -1)
    taken_by = np.full(n + 1, -1)
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for f in range(indptr[j], indptr[j + 1]):
                if colours[indices[f]] >= 0:
                    taken_by[colours[indices[f]]] = i
        colour = 0
        while taken_by[colour] == i:
            colour += 1
        colours[i] = colour
    return colours


@compiled()
def _conjugate_gradients(
    data: Floats,
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    inverse_diagonal: Floats,
    chunks: Rows,
    coarse: Floats,
    b: Floats,
) -> Floats:
    """A^-1 b. Sums run in a fixed order, so that the bits do not depend on the number of threads."""
    n = len(b)
    x = np.zeros(n)
    r = b.copy()
    z = np.empty(n)
    _precondition(inverse_diagonal, chunks, coarse, r, z)
    p = z.copy()
    q = np.empty(n)
    rho = _dot(r, z)
    enough = rho * _TOLERANCE * _TOLERANCE
    for _ in range(_MAX_ITERATIONS):
        if rho <= enough:
            break
        curvature = 0.0
        for i in range(n):
            total = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                total += data[e] * p[indices[e]]
            q[i] = total
            curvature += total * p[i]
        alpha = rho / curvature
        for i in range(n):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]
        _precondition(inverse_diagonal, chunks, coarse, r, z)
        before, rho = rho, _dot(r, z)
        for i in range(n):
            p[i] = z[i] + (rho / before) * p[i]
    return x


@compiled()
def _precondition(inverse_diagonal: Floats, chunks: Rows, coarse: Floats, r: Floats, z: Floats) -> None:
    """z = (D^-1 + Z (Z' A Z)^-1 Z') r."""
    n_chunks = len(coarse)
    correction = np.zeros(n_chunks)
    for c in range(n_chunks):
        total = 0.0
        for i in range(chunks[c], chunks[c + 1]):
            total += r[i]
        row = coarse[c]
        for k in range(n_chunks):
            correction[k] += total * row[k]
    for c in range(n_chunks):
        for i in range(chunks[c], chunks[c + 1]):
            z[i] = inverse_diagonal[i] * r[i] + correction[c]


@compiled()
def _dot(a: Floats, b: Floats) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total
