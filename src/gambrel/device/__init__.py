"""The device layer: what a machine can do at most, and where each figure comes from.

`model` holds the records and `files` reads them from TOML. `catalog` and `names` find one of the
devices that come with the package; `lookup` is the way in, `listing` the table of all. `roofs` says
which roof serves which work, by the tables in `fallbacks`; `fastest` and `onchip` say what no run
can exceed, and `levels` how large memories of several parts are. `explain` puts the pitfalls of a
device into sentences, and `checks` tests its figures against each other.
"""
