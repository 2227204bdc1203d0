{{- /*
Copyright The Stowage Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* What values change of a Deployment, DaemonSet or Job. */ -}}
{{- define "stowage.workload" -}}
{{- $values := .values -}}
{{- $spec := .object.spec -}}
{{- $pod := $spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- if and (eq .object.kind "Deployment") (hasKey $values "replicaCount") -}}
{{- $_ := set $spec "replicas" (int $values.replicaCount) -}}
{{- end -}}
{{- $_ := set $container "image" (include "stowage.image" (dict "root" .root "made" $container.image "image" $values.image)) -}}
{{- with dig "image" "pullPolicy" .root.Values.image.pullPolicy $values -}}{{- $_ := set $container "imagePullPolicy" . -}}{{- end -}}
{{- with .root.Values.imagePullSecrets -}}{{- $_ := set $pod "imagePullSecrets" . -}}{{- end -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" -}}
{{- if hasKey $values $key -}}{{- $_ := set $pod $key (get $values $key) -}}{{- end -}}
{{- end -}}
{{- with $values.initContainers -}}{{- $_ := set $pod "initContainers" (concat (default list $pod.initContainers) .) -}}{{- end -}}
{{- with $values.extraVolumes -}}{{- $_ := set $pod "volumes" (concat (default list $pod.volumes) .) -}}{{- end -}}
{{- with $values.extraVolumeMounts -}}{{- $_ := set $container "volumeMounts" (concat (default list $container.volumeMounts) .) -}}{{- end -}}
{{- if hasKey $values "resources" -}}{{- $_ := set $container "resources" $values.resources -}}{{- end -}}
{{- /* OpenShift assigns users in all namespaces but its own and Kubernetes'; kubelet takes the image's otherwise. */ -}}
{{- if and .root.Values.openshift (eq .object.metadata.namespace "stowage-system") $pod.securityContext -}}
{{- $_ := set $pod "securityContext" (omit $pod.securityContext "runAsUser" "runAsGroup") -}}
{{- end -}}
{{- $args := default list $container.args -}}
{{- if and .root.Values.metrics.secure (has .component (list "extender" "provisioner" "controller" "csi")) (ne .object.kind "Job") -}}
{{- $args = append $args "--secure-metrics" -}}
{{- range list $container.startupProbe $container.livenessProbe $container.readinessProbe -}}{{- $_ := set .httpGet "scheme" "HTTPS" -}}{{- end -}}
{{- end -}}
{{- if hasKey $values "logLevel" -}}{{- $args = append $args (printf "--v=%d" (int $values.logLevel)) -}}{{- end -}}
{{- with concat $args (default list $values.extraArgs) -}}{{- $_ := set $container "args" . -}}{{- end -}}
{{- with $values.extraEnv -}}{{- $_ := set $container "env" (concat (default list $container.env) .) -}}{{- end -}}
{{- $metadata := $spec.template.metadata -}}
{{- with mergeOverwrite (deepCopy .root.Values.commonLabels) (deepCopy (default dict $values.podLabels)) -}}
{{- $_ := set $metadata "labels" (mergeOverwrite (deepCopy .) $metadata.labels) -}}
{{- end -}}
{{- with $values.podAnnotations -}}
{{- $_ := set $metadata "annotations" (mergeOverwrite (default dict $metadata.annotations) (deepCopy .)) -}}
{{- end -}}
{{- end -}}

{{- /*
An image's name: of the part, if it has its own, else of all. If the manifests' tag names the minor of
Kubernetes that the image is built for, it is the newest; API servers of an older one get theirs.
The chart of a release has digests.yaml, which pins its own images.
*/ -}}
{{- define "stowage.image" -}}
{{- $image := default dict .image -}}
{{- $name := last (splitList "/" (first (splitList ":" .made))) -}}
{{- $repository := default (printf "%s/%s" (trimSuffix "/" .root.Values.image.registry) $name) $image.repository -}}
{{- $tag := toString (default .root.Chart.AppVersion .root.Values.image.tag) -}}
{{- with regexFind "-kube1[.][0-9]+$" .made -}}
{{- $tag = printf "%s-kube1.%d" $tag (min (int (trimPrefix "-kube1." .)) (semver $.root.Capabilities.KubeVersion.Version).Minor) -}}
{{- end -}}
{{- $tag = toString (default $tag $image.tag) -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- $pinned := get (fromYaml (.root.Files.Get "digests.yaml")) (printf "%s:%s" $name $tag) -}}
{{- printf "%s:%s" $repository $tag -}}
{{- if and $pinned (not $image.repository) -}}@{{ $pinned }}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Merges config.yaml of a ConfigMap with values, and has the workload's pods restart when it changes. */ -}}
{{- define "stowage.config" -}}
{{- $config := fromYaml (get .object.data "config.yaml") -}}
{{- $_ := set .object.data "config.yaml" (toYaml (mergeOverwrite $config (deepCopy .config))) -}}
{{- end -}}

{{- define "stowage.checksum" -}}
{{- $metadata := .object.spec.template.metadata -}}
{{- $_ := set $metadata "annotations" (mergeOverwrite (default dict $metadata.annotations) (dict "checksum/config" (sha256sum (toJson .of)))) -}}
{{- end -}}
