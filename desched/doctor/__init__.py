"""Is it safe to start desched here, and what has to change if not?

`examination` is all that was found out, `diagnosis` the checks of it in order of importance; every
other module has the checks of one subject. No check does I/O: `questions`, `node_autoscalers` and
`replayed_price` ask.
"""
