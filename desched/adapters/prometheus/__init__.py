"""Prometheus behind the LoadReader port; the only home of its client library.

`connection`, `credentials` and `session` know HTTP; `client` and `questions` what an answer means;
`queries` what to ask; `nodes` whose series it is; `trust` whether it may be believed; `node_loads`,
`pod_loads` and `reader` put it together; `port_forward` knows addresses inside the cluster.
"""
