{{- define "ceiling.name" -}}
{{- if contains "ceiling" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-ceiling" (.Release.Name | trunc 32 | trimSuffix "-") }}
{{- end -}}
{{- end -}}

{{/* Labels that select; called with a dict of root and role. */}}
{{- define "ceiling.selector" -}}
app.kubernetes.io/name: ceiling
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end -}}

{{- define "ceiling.labels" -}}
{{ include "ceiling.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "ceiling.join" -}}
{{- if .Values.join -}}
{{ .Values.join }}
{{- else if .Values.controller.enabled -}}
nats://{{ include "ceiling.name" . }}-controller.{{ .Release.Namespace }}.svc:{{ .Values.controller.port }}
{{- else -}}
{{ fail "join: say where the agents join, nats://HOST:4222, or enable the controller" }}
{{- end -}}
{{- end -}}

{{- define "ceiling.secret" -}}
{{- if and .Values.token.existingSecret .Values.token.value -}}
{{ fail "token: existingSecret or value, not both" }}
{{- else if .Values.token.existingSecret -}}
{{ .Values.token.existingSecret }}
{{- else if .Values.token.value -}}
{{ include "ceiling.name" . }}-token
{{- else -}}
{{ fail "token.existingSecret: name the Secret that has the controller's token: kubectl create secret generic ceiling-token --from-file=token" }}
{{- end -}}
{{- end -}}

{{/* Requests and limits alike: Guaranteed. Called with the values of a role. */}}
{{- define "ceiling.resources" -}}
requests:
  cpu: {{ .cpus | quote }}
  memory: {{ .memory }}
limits:
  cpu: {{ .cpus | quote }}
  memory: {{ .memory }}
{{- end -}}

{{/* What every pod has: no way into the API, and a bounded end. */}}
{{- define "ceiling.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 15
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "ceiling.tokenVolume" -}}
- name: token
  secret:
    secretName: {{ include "ceiling.secret" . }}
    items:
      - key: {{ .Values.token.key }}
        path: token
    defaultMode: 0444
{{- end -}}
