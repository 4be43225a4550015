"""Code that one page or two need and that travels with their downloaded scripts.

`lanes` draws what a warp asks for, `plausibility` holds a reported time against the hardware, and `svg` has what their
boards are made of. `hd142527` has a real observation.
"""
