"""What a machine measured and printed, kept in files: taken, read, and found out of date."""
