"""From the sky to visibilities and back: transforms, beams, the dirty image, and which grid suits the data."""
