"""Why a plan is as it is: the facts behind it about one node, pod or workload.

Everything here is computed anew from a decision, by the rules and forecasts that made it, so that
cycles without a question spend nothing on it.
"""
