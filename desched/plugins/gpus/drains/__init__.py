"""Drains nodes for what waits for their GPUs: completely and with every move proved, or not at all.

`demands` finds what waits, `vacancies` which pods of a node would leave, `places` which nodes serve
a demand for the fewest and cheapest moves. `proof` shows that all these pods fit elsewhere, and the
demand then fits. `holds` keeps others off the nodes, `ledger` ends what has landed or is stopped.
"""
