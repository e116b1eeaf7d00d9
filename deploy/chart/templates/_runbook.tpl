{{/* The annotation with the section of an alert in docs/operations-reference.md; of the context and the alert's name. */}}
{{- define "desched.runbookUrl" -}}
{{- $alert := last . -}}
{{- with (first .).Values.prometheusRule.runbookBaseUrl }}
        runbook_url: {{ printf "%s#%s" . (lower $alert) | quote }}
{{- end }}
{{- end }}
