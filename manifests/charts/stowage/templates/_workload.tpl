{{- /*
Copyright The Stowage Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /*
Changes a Deployment, DaemonSet or Job by the values that all parts have. A value that is not set leaves the field as in
the manifests. The first container is that of the part.
*/ -}}
{{- define "stowage.workload" -}}
{{- $values := .values -}}
{{- $spec := .object.spec -}}
{{- $pod := $spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- if hasKey $values "replicaCount" -}}{{- $_ := set $spec "replicas" (int $values.replicaCount) -}}{{- end -}}
{{- $_ := set $container "image" (include "stowage.image" (dict "root" .root "made" $container.image "image" $values.image)) -}}
{{- with dig "image" "pullPolicy" .root.Values.image.pullPolicy $values -}}{{- $_ := set $container "imagePullPolicy" . -}}{{- end -}}
{{- with .root.Values.imagePullSecrets -}}{{- $_ := set $pod "imagePullSecrets" . -}}{{- end -}}

{{- /* Fields that values replace, and lists to which they add. */ -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" -}}
{{- if hasKey $values $key -}}{{- $_ := set $pod $key (get $values $key) -}}{{- end -}}
{{- end -}}
{{- if hasKey $values "resources" -}}{{- $_ := set $container "resources" $values.resources -}}{{- end -}}
{{- range $add := list (list $pod "initContainers" $values.initContainers) (list $pod "volumes" $values.extraVolumes) (list $container "volumeMounts" $values.extraVolumeMounts) (list $container "env" $values.extraEnv) -}}
{{- with last $add -}}{{- $_ := set (first $add) (index $add 1) (concat (get (first $add) (index $add 1) | default list) .) -}}{{- end -}}
{{- end -}}

{{- /* Arguments. Parts other than the scheduler, which always does, serve probes over TLS with --secure-metrics. */ -}}
{{- $args := default list $container.args -}}
{{- if and .root.Values.metrics.secure $container.livenessProbe (ne "HTTPS" (default "" $container.livenessProbe.httpGet.scheme)) -}}
{{- $args = append $args "--secure-metrics" -}}
{{- range list $container.startupProbe $container.livenessProbe $container.readinessProbe -}}{{- $_ := set .httpGet "scheme" "HTTPS" -}}{{- end -}}
{{- end -}}
{{- if hasKey $values "logLevel" -}}{{- $args = append $args (printf "--v=%d" (int $values.logLevel)) -}}{{- end -}}
{{- with concat $args (default list $values.extraArgs) -}}{{- $_ := set $container "args" . -}}{{- end -}}

{{- /* OpenShift assigns users and groups in all namespaces but its own and Kubernetes'. */ -}}
{{- if and .root.Values.openshift (ne .root.Release.Namespace "kube-system") $pod.securityContext -}}
{{- $_ := set $pod "securityContext" (omit $pod.securityContext "runAsUser" "runAsGroup" "fsGroup") -}}
{{- end -}}

{{- /* Labels of the manifests win: selectors select by them. */ -}}
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

{{- /*
Merges config into config.yaml of a ConfigMap. A Deployment restarts its pods when config changes, or what is in with:
further values by which its ConfigMap changes.
*/ -}}
{{- define "stowage.config" -}}
{{- if eq .object.kind "Deployment" -}}
{{- $metadata := .object.spec.template.metadata -}}
{{- $_ := set $metadata "annotations" (mergeOverwrite (default dict $metadata.annotations) (dict "checksum/config" (sha256sum (toJson (list .config .with))))) -}}
{{- else if eq .object.kind "ConfigMap" -}}
{{- $config := fromYaml (get .object.data "config.yaml") -}}
{{- $_ := set .object.data "config.yaml" (toYaml (mergeOverwrite $config (deepCopy .config))) -}}
{{- end -}}
{{- end -}}

{{- /* Has the pods of a DaemonSet use kubelet's folder, at its own path. */ -}}
{{- define "stowage.kubelet" -}}
{{- $folder := .root.Values.kubeletDir -}}
{{- $pod := .object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- range $pod.volumes -}}{{- if eq .name "kubelet" -}}{{- $_ := set .hostPath "path" $folder -}}{{- end -}}{{- end -}}
{{- range $container.volumeMounts -}}
{{- if and (eq .name "kubelet") (ne .mountPath $folder) -}}
{{- $_ := set . "mountPath" $folder -}}
{{- $_ := set $container "args" (prepend (default list $container.args) (printf "--kubelet-dir=%s" $folder)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
