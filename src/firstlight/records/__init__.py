"""What a machine measured and printed, kept in files: taken, read, and found out of date.

`runner` runs an example block by block, and `recorder` takes a record of it. `record` writes, reads and judges records,
`schema` says what one looks like, and `package_parts` which parts of the package an example imports.
"""
