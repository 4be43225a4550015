"""What a script meets, in words, that is older than the project of the kernel tools."""

raise ImportError("firstlight.kernels is firstlight_kernels now: download the page's script again, and its packages")
