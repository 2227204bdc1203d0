{{- /*
Copyright The Stowage Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The objects of files/<file>.yaml, with what the values change. Arguments:
  root       the chart's top
  file       which file
  component  which part, in the names of objects (stowage-<component>); may be empty
  values     the part's values
  change     the template that makes further changes to an object, called with object and root; may be empty
  annotations  for all objects; may be empty
  skip       a kind to leave out; may be left out
*/ -}}
{{- define "stowage.objects" -}}
{{- $arg := . -}}
{{- range $text := regexSplit "(?m)^---$" (.root.Files.Get (printf "files/%s.yaml" .file)) -1 }}
{{- $object := fromYaml $text }}
{{- if and $object.kind (ne $object.kind (default "" $arg.skip)) (not (include "stowage.skips" (dict "object" $object "root" $arg.root))) }}
{{- include "stowage.label" (dict "object" $object "root" $arg.root "annotations" $arg.annotations) }}
{{- if has $object.kind (list "Deployment" "DaemonSet" "Job") }}
{{- include "stowage.workload" (dict "object" $object "root" $arg.root "component" $arg.component "values" $arg.values) }}
{{- end }}
{{- if eq $object.kind "NetworkPolicy" }}{{- include "stowage.apiServerPorts" (dict "object" $object "root" $arg.root) }}{{- end }}
{{- if $arg.change }}{{- include $arg.change (dict "object" $object "root" $arg.root) }}{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Says something if an object is not wanted. The namespace is what Helm installs into. */ -}}
{{- define "stowage.skips" -}}
{{- $kind := .object.kind -}}
{{- if or (eq $kind "Namespace")
  (and (eq $kind "NetworkPolicy") (not .root.Values.networkPolicies))
  (and (eq $kind "PodDisruptionBudget") (not .root.Values.podDisruptionBudgets))
  (and (eq $kind "PrometheusRule") (not .root.Values.monitoring.rules))
  (and (has $kind (list "ServiceMonitor" "PodMonitor")) (not .root.Values.monitoring.monitors)) -}}
skip
{{- end -}}
{{- end -}}

{{- /* The ports that a NetworkPolicy lets out: the API server's, and those of DNS as they are. */ -}}
{{- define "stowage.apiServerPorts" -}}
{{- range .object.spec.egress -}}
{{- $ports := list -}}
{{- range $.root.Values.apiServerPorts -}}{{- $ports = append $ports (dict "port" (int .)) -}}{{- end -}}
{{- range .ports -}}{{- if eq (int .port) 53 -}}{{- $ports = append $ports . -}}{{- end -}}{{- end -}}
{{- $_ := set . "ports" $ports -}}
{{- end -}}
{{- end -}}

{{- /* Labels and annotations of an object. */ -}}
{{- define "stowage.label" -}}
{{- $metadata := .object.metadata -}}
{{- $labels := dict "app.kubernetes.io/part-of" "stowage" "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version) "app.kubernetes.io/managed-by" .root.Release.Service "app.kubernetes.io/instance" .root.Release.Name -}}
{{- $_ := set $metadata "labels" (mergeOverwrite $labels (deepCopy .root.Values.commonLabels) (default dict $metadata.labels)) -}}
{{- if and (has .object.kind (list "ServiceMonitor" "PodMonitor" "PrometheusRule")) .root.Values.monitoring.labels -}}
{{- $_ := set $metadata "labels" (mergeOverwrite $metadata.labels (deepCopy .root.Values.monitoring.labels)) -}}
{{- end -}}
{{- with .annotations -}}
{{- $_ := set $metadata "annotations" (mergeOverwrite (default dict $metadata.annotations) (deepCopy .)) -}}
{{- end -}}
{{- end -}}

{{- /* Fails for values that would have something wait for a part that is not there. */ -}}
{{- define "stowage.consistent" -}}
{{- if and .Values.controller.cleaningJobs (not .Values.controller.enabled) -}}
{{- fail "controller.cleaningJobs: must not be true while controller.enabled is false: agents would wait for ever for the Jobs that the controller makes" -}}
{{- end -}}
{{- if and .Values.policies.schedulerName (not .Values.scheduler.enabled) -}}
{{- fail (printf "policies.schedulerName: must not be true while scheduler.enabled is false: pods would wait for ever for the scheduler %s" .Values.scheduler.name) -}}
{{- end -}}
{{- end -}}

{{- /* Fails unless the chart is installed where the policies and the agents look for it. */ -}}
{{- define "stowage.namespace" -}}
{{- if ne .Release.Namespace "stowage-system" -}}
{{- fail (printf "namespace: must be stowage-system, because the admission policies know the node agents by it, and is %q: say --namespace stowage-system" .Release.Namespace) -}}
{{- end -}}
{{- end -}}
