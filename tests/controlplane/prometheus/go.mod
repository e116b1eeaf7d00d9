// Prometheus in a module of its own: its dependencies do not agree with those of Kubernetes.
module desched.test/prometheus

go 1.26.0

tool (
	github.com/prometheus/prometheus/cmd/prometheus
	github.com/prometheus/prometheus/cmd/promtool
)

require github.com/prometheus/prometheus v0.315.0
