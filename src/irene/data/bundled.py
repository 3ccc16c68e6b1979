"""Data sets that come with scikit-learn, so that irene can be tried offline.

Their test sets are cut with a fixed seed: results of different seeds are about the same test samples.
"""

from __future__ import annotations

import numpy as np

from irene.data.arrays import from_arrays
from irene.data.samples import Data


def digits() -> Data:
    """1,797 handwritten digits as 8 x 8 grey images with values from 0 to 16."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return from_arrays(bunch.images.astype(np.uint8), bunch.target, name="digits", seed=0)


def diabetes() -> Data:
    """442 patients with 10 measurements each; the target is how far the disease went in a year."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    return from_arrays(bunch.data, bunch.target, task="regression", name="diabetes", classes=("progression",), seed=0)
