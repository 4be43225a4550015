"""What a machine measured and printed, kept in files.

`record` says what a record is and when it is out of date, `recorder` takes one with the help of `runner`, which runs a page
block by block, `schema` checks its form, and `wings` finds which code it stands on.
"""
