"""The JSON of the API server, narrowed to the fields that are used.

Servers print null for empty lists and maps, so nearly everything may be None. `msgspec.Raw` leaves
a part undecoded: the pods of a workload repeat it byte for byte, and it is decoded once for all.
"""
