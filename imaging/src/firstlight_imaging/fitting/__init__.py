"""Fit an image to visibilities, and assess the fit.

The path of a fit through the files:

- `exact` is the likelihood of all visibilities (a `GriddedDataset` is the other kind of data);
- `objective` adds the regularizers to its reduced χ²: a loss, and its gradient by autograd;
- `fused_step` is the same loss and gradient written out in the few kernels of `fused_kernels`, for speed;
- `optimizers` iterates: Adam or L-BFGS;
- `fit_loop` has `fit` itself: it iterates, checks every few iterations, stops, and returns a `Fit`;
- `quality` assesses the image by its residuals and its flux;
- `cross_validation` splits the data into folds, to choose λ by prediction.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
