"""The replacement of a pod, as far as its requests are known before it exists."""

from msgspec.structs import replace

from desched.model.cluster import Pod, Workload
from desched.model.networks import amounts_of_networks, networks_of


def replacement_of(pod: Pod, workload: Workload | None) -> Pod:
    """Return the pod with requests that its replacement does not exceed.

    The replacement requests what the template and a VerticalPodAutoscaler set, and the networks
    that its annotation names. A pod may request more than that, by a LimitRange or an older
    recommendation; then its own requests count.
    """
    scheduling = pod.scheduling
    networks = networks_of(pod.annotations)
    requests = scheduling.requests
    if networks:
        requests = requests.raised_to(amounts_of_networks(networks))
    if workload is not None and workload.template_requests is not None:
        requests = requests.raised_to(workload.template_requests)
    if requests is scheduling.requests:
        return pod
    larger = replace(
        scheduling,
        requests=requests,
        scored_cpu_millicores=max(scheduling.scored_cpu_millicores, requests.cpu_millicores),
        scored_memory_bytes=max(scheduling.scored_memory_bytes, requests.memory_bytes),
    )
    return replace(pod, scheduling=larger)
