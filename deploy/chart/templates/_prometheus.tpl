{{/* The files of credentials for Prometheus, as sources of one projected volume. */}}
{{- define "desched.credentials" -}}
{{- with .Values.prometheus -}}
{{- with .password }}{{ if .secret }}
- secret: {name: {{ .secret }}, items: [{key: {{ .key }}, path: password}]}
{{- end }}{{ end }}
{{- with .bearerToken }}{{ if .secret }}
- secret: {name: {{ .secret }}, items: [{key: {{ .key }}, path: token}]}
{{- end }}{{ end }}
{{- with .headers }}{{ if .secret }}
- secret: {name: {{ .secret }}, items: [{key: {{ .key }}, path: headers}]}
{{- end }}{{ end }}
{{- with .clientCertificate }}{{ if .secret }}
- secret: {name: {{ .secret }}, items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]}
{{- end }}{{ end }}
{{- with .certificateAuthority }}{{ if .secret }}
- secret: {name: {{ .secret }}, items: [{key: {{ .key }}, path: ca.crt}]}
{{- else if .configMap }}
- configMap: {name: {{ .configMap }}, items: [{key: {{ .key }}, path: ca.crt}]}
{{- end }}{{ end }}
{{- end }}
{{- end }}

{{- define "desched.prometheusVariables" -}}
{{- with .Values.prometheus -}}
{{- $secret := or .password.secret .bearerToken.secret .headers.secret .clientCertificate.secret }}
{{- if and $secret (not .url) (not $.Values.settings.DESCHED_PROMETHEUS_TRUSTED_ADDRESSES) }}
{{- fail "prometheus.url is required with credentials: otherwise whoever edits the policy chooses where they go" }}
{{- end }}
{{- with .url }}
{{- /* In any spelling of desched, and wherever YAML allows the key to stand. */}}
{{- if regexMatch `(?i)"type":"(metrics-server|metrics_server|kubernetesmetrics|prometheus_adaptor)"` (toJson (fromYaml $.Values.policy)) }}
{{- fail "prometheus.url is set, but the policy does not read load from Prometheus; remove the value, or set metrics.type of the policy to prometheus" }}
{{- end }}
- name: DESCHED_PROMETHEUS_URL
  value: {{ . | quote }}
{{- end }}
{{- with .username }}
- name: DESCHED_PROMETHEUS_USERNAME
  value: {{ . | quote }}
{{- end }}
{{- if .password.secret }}
- name: DESCHED_PROMETHEUS_PASSWORD_FILE
  value: /etc/desched-prometheus/password
{{- end }}
{{- if .bearerToken.secret }}
- name: DESCHED_PROMETHEUS_BEARER_TOKEN_FILE
  value: /etc/desched-prometheus/token
{{- end }}
{{- if .headers.secret }}
- name: DESCHED_PROMETHEUS_HEADERS_FILE
  value: /etc/desched-prometheus/headers
{{- end }}
{{- if .clientCertificate.secret }}
- name: DESCHED_PROMETHEUS_CLIENT_CERT_FILE
  value: /etc/desched-prometheus/tls.crt
- name: DESCHED_PROMETHEUS_CLIENT_KEY_FILE
  value: /etc/desched-prometheus/tls.key
{{- end }}
{{- if or .certificateAuthority.secret .certificateAuthority.configMap }}
- name: DESCHED_PROMETHEUS_CA_FILE
  value: /etc/desched-prometheus/ca.crt
{{- end }}
{{- end }}
{{- end }}
