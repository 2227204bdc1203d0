{{- /*
Copyright The Stowage Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /*
The chart's objects are those of the manifests. hack/update-chart.sh writes them to files/*.yaml; a template reads
one of these files, changes what the values set, and prints the objects.

stowage.objects prints the objects of a file. Arguments:
  root         the top of the chart
  file         the name of the file in files, without .yaml
  values       those of the part that the workload in the file is; default: none
  change       the name of a template that changes an object further; it has the arguments object and root
  annotations  of all objects
  only, skip   a kind of which alone, or of which no, objects are printed
*/ -}}
{{- define "stowage.objects" -}}
{{- $arg := . -}}
{{- range $text := regexSplit "(?m)^---$" (include "stowage.file" .) -1 }}
{{- $object := fromYaml $text }}
{{- $kind := default "" $object.kind }}
{{- if and $kind (ne $kind (default "" $arg.skip)) (eq $kind (default $kind $arg.only)) (include "stowage.enabled" (dict "object" $object "root" $arg.root)) }}
{{- include "stowage.metadata" (dict "object" $object "root" $arg.root "annotations" $arg.annotations) }}
{{- if has $kind (list "Deployment" "DaemonSet" "Job") }}
{{- include "stowage.workload" (dict "object" $object "root" $arg.root "values" (default dict $arg.values)) }}
{{- end }}
{{- if $arg.change }}{{- include $arg.change (dict "object" $object "root" $arg.root) }}{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end -}}

{{- /*
The text of a file, with the namespaces of the release: the files have stowage-system and stowage-pav. Policies and
configurations name them too, so the text is changed, not the fields of objects.
*/ -}}
{{- define "stowage.file" -}}
{{- .root.Files.Get (printf "files/%s.yaml" .file) | replace "stowage-system" .root.Release.Namespace | replace "namespace: stowage-pav" (printf "namespace: %s" .root.Values.pav.namespace) -}}
{{- end -}}

{{- /* Not empty if the values enable an object of a file that is printed. Helm makes the namespace of the release. */ -}}
{{- define "stowage.enabled" -}}
{{- $values := .root.Values -}}
{{- $kind := .object.kind -}}
{{- $name := .object.metadata.name -}}
{{- if eq $kind "Namespace" -}}{{- ternary "" "true" (eq $name .root.Release.Namespace) -}}
{{- else if eq $kind "NetworkPolicy" -}}{{- ternary "true" "" (get $values (trimPrefix "stowage-" $name | replace "csi" "pav")).enabled -}}
{{- else if eq $kind "PodDisruptionBudget" -}}{{- ternary "true" "" $values.podDisruptionBudget.enabled -}}
{{- else if eq $kind "PrometheusRule" -}}{{- ternary "true" "" $values.monitoring.prometheusRule.enabled -}}
{{- else if has $kind (list "ServiceMonitor" "PodMonitor") -}}{{- ternary "true" "" $values.monitoring.serviceMonitor.enabled -}}
{{- else -}}true
{{- end -}}
{{- end -}}

{{- /* Adds the labels of the chart and the annotations to an object. */ -}}
{{- define "stowage.metadata" -}}
{{- $metadata := .object.metadata -}}
{{- $labels := dict "app.kubernetes.io/part-of" "stowage" "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version) "app.kubernetes.io/managed-by" .root.Release.Service "app.kubernetes.io/instance" .root.Release.Name -}}
{{- $_ := set $metadata "labels" (mergeOverwrite $labels (deepCopy .root.Values.commonLabels) (default dict $metadata.labels)) -}}
{{- with .annotations -}}
{{- $_ := set $metadata "annotations" (mergeOverwrite (default dict $metadata.annotations) (deepCopy .)) -}}
{{- end -}}
{{- end -}}
