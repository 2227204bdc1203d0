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
  only       the one kind to make; may be left out
*/ -}}
{{- define "stowage.objects" -}}
{{- $arg := . -}}
{{- range $text := regexSplit "(?m)^---$" (.root.Files.Get (printf "files/%s.yaml" .file)) -1 }}
{{- $object := fromYaml $text }}
{{- if and $object.kind (ne $object.kind (default "" $arg.skip)) (eq $object.kind (default $object.kind $arg.only)) (not (include "stowage.skips" (dict "object" $object "root" $arg.root))) }}
{{- include "stowage.label" (dict "object" $object "root" $arg.root "annotations" $arg.annotations) }}
{{- if has $object.kind (list "Deployment" "DaemonSet" "Job") }}
{{- include "stowage.workload" (dict "object" $object "root" $arg.root "component" $arg.component "values" $arg.values) }}
{{- end }}
{{- if $arg.change }}{{- include $arg.change (dict "object" $object "root" $arg.root) }}{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Not empty if an object is not wanted. Namespace stowage-system is what Helm installs into. */ -}}
{{- define "stowage.skips" -}}
{{- $kind := .object.kind -}}
{{- if or (and (eq $kind "Namespace") (eq .object.metadata.name "stowage-system"))
  (and (eq $kind "NetworkPolicy") (not (get .root.Values (trimPrefix "stowage-" .object.metadata.name | replace "csi" "pav")).enabled))
  (and (eq $kind "PodDisruptionBudget") (not .root.Values.podDisruptionBudget.enabled))
  (and (eq $kind "PrometheusRule") (not .root.Values.monitoring.prometheusRule.enabled))
  (and (has $kind (list "ServiceMonitor" "PodMonitor")) (not .root.Values.monitoring.serviceMonitor.enabled)) -}}
skip
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

{{- /* Fails for parts that do not fit the API server. */ -}}
{{- define "stowage.versions" -}}
{{- $is := .Capabilities.KubeVersion.Version -}}
{{- range $part := list "scheduler" "extender" "provisioner" "controller" -}}
{{- $fits := index $.Chart.Annotations (printf "stowage.dev/%s-kube-version" $part) -}}
{{- if and (get $.Values $part).enabled (not (semverCompare $fits $is)) -}}
{{- fail (printf "%s.enabled: must be false with Kubernetes %s, because stowage-%s is for Kubernetes %s (without a cluster, say for which version with --kube-version)" $part $is $part (replace ".0-0" "" $fits)) -}}
{{- end -}}
{{- end -}}
{{- $fits := index .Chart.Annotations "stowage.dev/policies-kube-version" -}}
{{- if and .Values.policies.schedulerName (not (semverCompare $fits $is)) -}}
{{- fail (printf "policies.schedulerName: must be false with Kubernetes %s, because the kind MutatingAdmissionPolicy is for Kubernetes %s" $is (replace ".0-0" "" $fits)) -}}
{{- end -}}
{{- end -}}

{{- /* Fails for values that would have something wait for a part that is not there. */ -}}
{{- define "stowage.consistent" -}}
{{- if and .Values.controller.cleaningJobs (not .Values.controller.enabled) -}}
{{- fail "controller.cleaningJobs: must not be true while controller.enabled is false: provisioners would wait forever for the Jobs that the controller creates" -}}
{{- end -}}
{{- if and .Values.pav.enabled (not .Values.controller.enabled) -}}
{{- fail "pav.enabled: must not be true while controller.enabled is false: claims would wait forever for the volumes that the controller makes" -}}
{{- end -}}
{{- if and .Values.pav.enabled (hasKey .Values.controller.config "pavVolumes") -}}
{{- fail "controller.config.pavVolumes: must not be set while pav.enabled is true, which sets it: use pav.reporter.image" -}}
{{- end -}}
{{- if and .Values.policies.schedulerName (not .Values.scheduler.enabled) -}}
{{- fail (printf "policies.schedulerName: must not be true while scheduler.enabled is false: pods would wait forever for the scheduler %s" .Values.scheduler.name) -}}
{{- end -}}
{{- end -}}

{{- /* Fails unless the chart is installed where the policies and the provisioners look for it. */ -}}
{{- define "stowage.namespace" -}}
{{- if ne .Release.Namespace "stowage-system" -}}
{{- fail (printf "namespace: must be stowage-system, because the admission policies know the provisioners by it, and is %q: say --namespace stowage-system" .Release.Namespace) -}}
{{- end -}}
{{- end -}}
