"""What is handed to the user: FITS images, pictures and the report."""
