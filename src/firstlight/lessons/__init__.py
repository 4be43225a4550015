"""Code that exists for one page and travels with its downloaded script."""
