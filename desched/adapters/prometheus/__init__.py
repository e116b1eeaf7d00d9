"""Prometheus behind the LoadReader port; the only home of its client library.

`connection` and `session`: HTTP. `client` and `cycle_queries`: queries and answers.
`queries`: PromQL. `nodes`: the node of a series. `data_quality`: whether data can be used.
`node_loads`, `history`, `reader`: the load. `port_forward`: in-cluster addresses.
Whatever sends a query raises ObservationError if there is no answer that can be understood.
"""
