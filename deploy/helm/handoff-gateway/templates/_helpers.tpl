{{- define "handoff.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "handoff.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "handoff.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "handoff.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What a part's pods are found by; it never changes. The argument is the root and the name of the part. */}}
{{- define "handoff.selector" -}}
app.kubernetes.io/name: {{ include "handoff.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "handoff.labels" -}}
{{ include "handoff.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of an object: root, component, name, and perhaps annotations. */}}
{{- define "handoff.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "handoff.labels" . | nindent 2 }}
  {{- with get . "labels" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (get . "annotations" | default (dict)) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "handoff.serviceAccountName" -}}
{{- default (include "handoff.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "handoff.image" -}}
{{- $repository := required "image.repository is missing: the place that you pushed the image to" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The pod has to live longer than the service takes to stop (25 s unless set), and longer than it goes on serving. */}}
{{- define "handoff.stopSeconds" -}}
{{- add 10 (max (get .Values.settings "SHUTDOWN_SECONDS" | default 25 | float64 | ceil | int) (get .Values.settings "DRAIN_SECONDS" | default 5 | float64 | ceil | int)) -}}
{{- end -}}

{{- define "handoff.env" -}}
{{- range $name := list "CRM_LOGIN_URL" "CRM_CLIENT_ID" "CRM_USERNAME" -}}
{{- $_ := required (printf "settings.%s is missing" $name) (get $.Values.settings $name) -}}
{{- end -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ required "databaseUrl.existingSecret is missing: the secret with the address of PostgreSQL" .Values.databaseUrl.existingSecret }}
      key: {{ .Values.databaseUrl.key }}
- name: REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ required "redisUrl.existingSecret is missing: the secret with the address of Redis" .Values.redisUrl.existingSecret }}
      key: {{ .Values.redisUrl.key }}
{{- if .Values.secretsClaim }}
- name: SECRETS_DIR
  value: /secrets
{{- end }}
{{- if get .Values.settings "VAULT_K8S_ROLE" }}
- name: VAULT_K8S_TOKEN_FILE
  value: /var/run/secrets/vault/token
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ include "handoff.text" $value | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A number without the exponent that large ones would get. */}}
{{- define "handoff.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{- define "handoff.volumes" -}}
- name: data
  emptyDir:
    sizeLimit: 64Mi
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "handoff.volumeMounts" -}}
- name: data
  mountPath: /var/lib/handoff
- name: tmp
  mountPath: /tmp
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What the service reads its secrets with or from; the migration reads none. */}}
{{- define "handoff.secretVolumes" -}}
{{- if .Values.secretsClaim }}
- name: secrets
  persistentVolumeClaim:
    claimName: {{ .Values.secretsClaim }}
{{- end }}
{{- if get .Values.settings "VAULT_K8S_ROLE" }}
- name: vault-token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3600
          {{- with .Values.vaultToken.audience }}
          audience: {{ . }}
          {{- end }}
{{- end }}
{{- end -}}

{{- define "handoff.secretVolumeMounts" -}}
{{- if .Values.secretsClaim }}
- name: secrets
  mountPath: /secrets
{{- end }}
{{- if get .Values.settings "VAULT_K8S_ROLE" }}
- name: vault-token
  mountPath: /var/run/secrets/vault
  readOnly: true
{{- end }}
{{- end -}}
