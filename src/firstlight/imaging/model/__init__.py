"""Models of the sky as torch modules, and the regularizers on them."""
