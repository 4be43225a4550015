"""What a script meets, in words, that is older than the project of the imager."""

raise ImportError("firstlight.imaging is firstlight_imaging now: download the page's script again, and its packages")
