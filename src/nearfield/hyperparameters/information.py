r"""How much blocks tell of hyperparameters: Fisher's information, from products of matrices with a few vectors.

With `dK` the derivatives of a covariance matrix, information is :math:`\frac12 tr(K^{-1} dK_i K^{-1} dK_j)`. Random
signs stand for the trace, so that it takes products with vectors alone. Of rows that are conditional on others, the
residuals :math:`r = C y` have the covariance :math:`S = C K C'`, and their mean tells of hyperparameters, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..common.types import Floats
from ..kernels import Kernel
from ..kernels.families import FAMILIES
from ..solvers import linalg
from .blocks import STACK_NUMBERS, Block

N_SIGNS = 2  # random vectors per block


def information(blocks: Sequence[Block], kernel: Kernel, noise_variance: float) -> Floats:
    """Expected information (p, p) of blocks about the logarithms of hyperparameters, in the order of gradients.

    Its eigenvalues are not negative.

    Raises
    ------
    LinAlgError
        Where a covariance matrix is not positive definite.
    """
    groups: dict[tuple[int, int], list[Block]] = {}
    for block in blocks:
        groups.setdefault((len(block.X), block.n_given), []).append(block)
    p = kernel.length_scales.size + kernel.n_scales + 1
    result = np.zeros((p, p))
    for (n, n_given), group in groups.items():
        size = max(STACK_NUMBERS // n**2, 1) if n_given else 1
        for start in range(0, len(group), size):
            rows = _rows_of(group[start : start + size], kernel, noise_variance)
            result += rows @ rows.T
    return result


def _rows_of(blocks: list[Block], kernel: Kernel, noise_variance: float) -> Floats:
    """Rows (p, ...) whose products are the information of blocks of equal shape, of a single one if independent."""
    n, given, k = len(blocks[0].X), blocks[0].n_given, blocks[0].y.shape[1]
    X = np.stack([block.X - block.X.mean(axis=0) for block in blocks])
    noise = np.stack([noise_variance * (np.ones(n) if b.noise_factors is None else b.noise_factors) for b in blocks])
    components, slopes = _components(X, kernel)
    K = sum(components[1:], components[0].copy())
    np.einsum("bii->bi", K)[:] += noise
    signs = (0.5 * k / N_SIGNS) ** 0.5 * np.random.RandomState(0).choice([-1.0, 1.0], (len(K), n - given, N_SIGNS))

    def images(vectors: Floats) -> Floats:
        return _images(X, kernel, components, slopes, noise, vectors)

    if not given:
        L = np.asfortranarray(K[0])
        if not linalg.cholesky_in_place(L):
            raise np.linalg.LinAlgError("The covariance matrix is not positive definite.")
        Q = np.zeros((n, 0))
        if blocks[0].drift is not None:  # what the drift explains tells nothing
            Q = np.linalg.qr(linalg.solve_lower(L, np.array(blocks[0].drift, order="F")))[0]
        vectors = linalg.solve_lower(L, np.asfortranarray(signs[0] - Q @ (Q.T @ signs[0])), transposed=True)
        rows = linalg.solve_lower(L, np.asfortranarray(images(vectors[None])[0]))
        rows -= Q @ (Q.T @ rows)
        rows = rows[None]
    else:
        y, m = np.stack([block.y[:given] for block in blocks]), n - given
        solution = np.linalg.solve(K[:, :given, :given], np.concatenate([K[:, :given, given:], y], axis=2))
        transposed = np.concatenate([-solution[:, :, :m], np.broadcast_to(np.eye(m), (len(K), m, m))], axis=1)
        contrasts = transposed.transpose(0, 2, 1)
        factors = np.linalg.cholesky(contrasts @ K[:, :, given:])
        weights = np.concatenate([solution[:, :, m:], np.zeros((len(K), m, k))], axis=1)
        roots = transposed @ np.linalg.solve(factors.transpose(0, 2, 1), signs)
        rows = np.linalg.solve(factors, contrasts @ images(np.concatenate([roots, weights], axis=2)))
    rows *= np.sqrt([block.share for block in blocks])[:, None, None]
    p = kernel.length_scales.size + kernel.n_scales + 1
    return rows.reshape(*rows.shape[:2], p, -1).transpose(2, 0, 1, 3).reshape(p, -1)


def _components(X: Floats, kernel: Kernel) -> tuple[list[Floats], list[Floats]]:
    """Components and slopes (B, n, n) at centred points (B, n, d); see `Family.with_slope`."""
    components, slopes = [], []
    for scales, variance in kernel.components():
        Z = X / scales
        squares = np.einsum("bnd,bnd->bn", Z, Z)
        distances = Z @ (-2.0 * Z.transpose(0, 2, 1))
        distances += squares[:, :, None]
        distances += squares[:, None, :]
        np.maximum(distances, 0.0, out=distances)
        np.einsum("bii->bi", distances)[:] = 0.0
        component, slope = FAMILIES[kernel.family].with_slope(distances)
        component *= variance
        if slope is not component:
            slope *= variance
        components.append(component)
        slopes.append(slope)
    return components, slopes


def _images(
    X: Floats, kernel: Kernel, components: list[Floats], slopes: list[Floats], noise: Floats, vectors: Floats
) -> Floats:
    """Products of the p derivatives of covariance matrices with vectors (B, n, r), side by side: (B, n, p * r).

    Squared differences of coordinates are expanded, so that products with a matrix are all it takes.
    """
    (B, n, d), q, r = X.shape, kernel.length_scales.shape[1], vectors.shape[2]
    x = X[..., None]
    times = x * vectors[:, :, None]  # (B, n, d, r)
    right = np.concatenate([vectors, times.reshape(B, n, d * r), (x * times).reshape(B, n, d * r)], axis=2)
    lengths, variances = [], []
    for scales, component, slope in zip(kernel.length_scales, components, slopes, strict=True):
        products = slope @ right
        plain = products[..., None, :r]
        first, second = (products[..., r:].reshape(B, n, 2, d, r)[:, :, i] for i in (0, 1))
        own = (second - 2.0 * x * first + x * x * plain) / (scales**2)[:, None]
        lengths.append(own.reshape(B, n, -1) if q > 1 else own.sum(axis=2))
        variances.append(products[..., :r] if slope is component else component @ vectors)
    return np.concatenate([*lengths, *variances, noise[..., None] * vectors], axis=2)
