"""An image of which nothing has to be chosen: `image`, behind ``firstlight image``.

Its steps are the files, in this order:

- `problem` puts visibilities and a grid into units of their noise, which all others compute with;
- `grid` chooses which baselines the image is made of, how wide it is, and how fine;
- `mask` finds the source, outside of which the image stays dark;
- `bregman` fits the image, stops where the residuals are noise, and finds its errors;
- `residuals` is what the image leaves of the data, and the quality of an image that leaves so much;
- `diagnosis` says why that is more than noise, if it is;
- `attempt` takes these steps on one grid;
- `auto_image` has `image` itself, which makes as many attempts as it needs.

`assessment` judges images of other programs by the same residuals.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
