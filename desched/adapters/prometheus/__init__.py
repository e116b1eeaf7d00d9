"""Prometheus behind the LoadReader port; the only home of its client library.

`connection` and `session`: HTTP. `client` and `cycle_queries`: queries and answers.
`queries`: PromQL. `nodes`: the node of a series. `node_loads`, `history`, `reader`: the load.
`device_loads`: what plugins measure. `port_forward`: in-cluster addresses.
Whatever sends a query raises ObservationError if there is no answer that can be understood.
"""
