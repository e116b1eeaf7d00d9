"""The HELP text of each metric, as Prometheus and Grafana show it."""

from collections.abc import Mapping

HELP_TEXTS: Mapping[str, str] = {
    # over the life of the process
    "desched_cycles": "Cycles, by result.",
    "desched_ticks_skipped": "Ticks of the schedule that started no cycle, by reason.",
    "desched_observation_failures": "Cycles skipped because a source could not be read.",
    "desched_evictions": "Eviction requests, by verdict.",
    "desched_moves": "Accepted evictions, by result.",
    "desched_cycle_duration_seconds": "Duration of a cycle.",
    "desched_last_success_timestamp_seconds": "Start of the last cycle that read the cluster.",
    "desched_leader": "1 while this replica holds the Lease and may evict, 0 otherwise.",
    "desched_leadership_changes": "How often this replica gained or lost the Lease.",
    "desched_state_problems": "How often the state could not be read or written.",
    "desched_taints_removed": "Soft taints removed because they had expired, or at the end.",
    "desched_taint_removal_failures": "Attempts to find or remove such soft taints that failed.",
    "desched_policy_valid": "1 if the policy file is in force, 0 if its last edit was refused.",
    "desched_policy_info": "The policy in force; always 1.",
    "desched_build_info": "The versions of desched and Python; always 1.",
    # of the last cycle
    "desched_nodes": "Nodes, by class.",
    "desched_unknown_nodes": "Nodes whose load is unknown, by reason.",
    "desched_unrelieved_nodes": "Overloaded nodes that the plan does not relieve, by reason.",
    "desched_node_load_ratio": "Highest load of a node over its windows, as a share of capacity.",
    "desched_planned_evictions": "Evictions in the last plan.",
    "desched_refusals": "Pods that stay on overloaded nodes, by reason.",
    "desched_hold": "1 for the reason why the whole cycle evicts nothing, 0 for all others.",
    "desched_not_acting": "1 for the reason why evictions are not allowed now, 0 for all others.",
    "desched_unresolved_series": "Load series that match no known node.",
    "desched_saturated_pools": "Pools that need more nodes; a cluster without pools is one.",
    "desched_other_deschedulers": "Other deschedulers, which undo the work of this one.",
    "desched_evictions_in_flight": "Evictions whose result is not known yet.",
    "desched_workloads_cooling_down": "Workloads that cool down after a move.",
    "desched_nodes_cooling_down": "Nodes that cool down because moves did not relieve them.",
    "desched_paused": "Active pauses, by scope.",
    "desched_state_bytes": "Size of the state that a cycle hands to the next one.",
    "desched_forecast_checks": "Landings of the last 24 hours that had a forecast.",
    "desched_forecast_hit_ratio": "Share of these landings on one of the most likely nodes.",
    "desched_forecast_hit_expected_ratio": "The share of such landings that was forecast.",
    "desched_forecast_bad_ratio": "Share of these landings that did not help.",
    "desched_forecast_bad_expected_ratio": "The share of such landings that was forecast.",
}
