// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package chartvalues

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Reasons that several values have.
const (
	fixedName  = "the chart's objects have fixed names: remove it"
	windows    = "Stowage has no provisioner for Windows: keep the reference's DaemonSet on these nodes"
	ownProbes  = "the provisioner has probes of its own: remove it"
	ownAccount = "the chart always makes the ServiceAccount stowage-provisioner and its rights: remove it, and give the account the other rights that the former one had"
	noPSP      = "Kubernetes has no PodSecurityPolicies since 1.25: remove it, and label the namespace with pod-security.kubernetes.io/enforce: privileged"
	helmsOwn   = "the namespace is Helm's: remove it, and use --namespace and --create-namespace of helm install"
)

// topRules are those of the values at the top.
var topRules = map[string]rule{
	"USER-SUPPLIED VALUES": {kind: text}, "COMPUTED VALUES": {kind: text}, // headings of helm get values
	"global": {kind: object, lost: "values of all charts are not converted: set what Stowage's chart needs"},

	"classes":         {kind: list, convert: (*conversion).classes},
	"labelsForPV":     {kind: object, convert: configText("labelsForPV")},
	"nodeLabels":      {kind: list, convert: configText("nodeLabelsForPV")},
	"minResyncPeriod": {kind: text, to: "provisioner.config.minResyncPeriod"},

	"useJobForCleaning": {kind: boolean, to: "controller.cleaningJobs"},
	"useNodeNameOnly":   {kind: boolean, lost: "volumes always name their node by its name alone: remove it; to go back, use --use-node-name-only of kubectl stowage release"},
	"setPVOwnerRef":     {kind: boolean, lost: "a deleted Node would take its volumes along, though the node may come back with its data: remove it, and for a lost node use kubectl stowage release"},
	"useAlphaAPI":       {kind: boolean, lost: "volumes always have spec.nodeAffinity: remove it"},

	"removeNodeNotReadyTaint":         {kind: boolean, to: "provisioner.startupTaint.enabled"},
	"provisionerNotReadyNodeTaintKey": {kind: text, convert: nothing}, // tolerate has it
	"tolerations":                     {kind: list, convert: nothing}, // tolerate has them

	"image":             {kind: text, lost: "the provisioner has another image: remove it; if images come from a mirror, set image.registry"},
	"imagePullPolicy":   {kind: text, to: "provisioner.image.pullPolicy"},
	"imagePullSecrets":  {kind: list, to: "imagePullSecrets"},
	"additionalArgs":    {kind: list, convert: (*conversion).arguments},
	"kubeConfigEnv":     {kind: text, convert: (*conversion).kubeconfig},
	"podAnnotations":    {kind: object, to: "provisioner.podAnnotations"},
	"podLabels":         {kind: object, to: "provisioner.podLabels"},
	"priorityClassName": {kind: text, to: "provisioner.priorityClassName"},
	"nodeSelector":      {kind: object, to: "provisioner.nodeSelector"},
	"affinity":          {kind: object, to: "provisioner.affinity"},
	"resources":         {kind: object, to: "provisioner.resources"},
	"initContainers":    {kind: list, to: "provisioner.initContainers"},

	"additionalVolumes":         {kind: list, convert: each("provisioner", "extraVolumes")},
	"additionalVolumeMounts":    {kind: list, convert: each("provisioner", "extraVolumeMounts")},
	"additionalHostPathVolumes": {kind: object, convert: (*conversion).hostPaths},
	"mountDevVolume":            {kind: boolean, same: true, lost: "the provisioner always mounts /dev: it opens devices to identify and clean them: remove it"},

	"privileged":      {kind: boolean, same: true, lost: "the provisioner's container is always privileged: only so can it open devices: remove it"},
	"securityContext": {kind: object, lost: "the provisioner's container has a security context of its own, which is privileged: remove it"},
	"hostPID":         {kind: boolean, lost: "the provisioner sees the node's processes by a mount of /proc: remove it"},
	"livenessProbe":   {kind: object, lost: ownProbes, same: defaultProbe},
	"readinessProbe":  {kind: object, lost: ownProbes},
	"startupProbe":    {kind: object, lost: ownProbes},
	"updateStrategy": {kind: object, fields: map[string]rule{
		"type": {kind: text, same: "RollingUpdate", lost: "the provisioners are always replaced by a rolling update: remove it"},
		"rollingUpdate": {kind: object, fields: map[string]rule{
			"maxUnavailable": {to: "provisioner.maxUnavailable"},
			"maxSurge":       {lost: "a node has one provisioner at a time: remove it"},
		}},
	}},

	"serviceMonitor": {kind: object, enabled: "enabled", fields: monitorRules("additionalLabels", monitorEnabled)},
	"prometheus": {kind: object, fields: map[string]rule{"operator": {kind: object, enabled: "enabled", fields: map[string]rule{
		"enabled":        monitorEnabled,
		"serviceMonitor": {kind: object, fields: monitorRules("selector", rule{})},
	}}}},
	"nodeCleanupController": {kind: object, enabled: "enabled", fields: cleanupRules},

	"nameOverride": {kind: text, lost: fixedName}, "fullnameOverride": {kind: text, lost: fixedName},
	"name": {kind: text, lost: fixedName}, "configMapName": {kind: text, lost: fixedName},
	"namespace": {kind: text, lost: helmsOwn}, "createNamespace": {kind: boolean, lost: helmsOwn},
	"enableWindows": {kind: boolean, lost: windows}, "nodeSelectorWindows": {kind: object, lost: windows},
	"podSecurityPolicy": {kind: boolean, lost: noPSP},
	"serviceAccount":    {lost: ownAccount, fields: map[string]rule{"create": {kind: boolean, same: true, lost: ownAccount}, "name": {kind: text, lost: ownAccount}}},
	"rbac": {same: true, lost: ownAccount, fields: map[string]rule{
		"create":     {kind: boolean, same: true, lost: ownAccount},
		"pspEnabled": {kind: boolean, lost: noPSP},
		"extraRules": {kind: list, lost: "the chart has no further rights: bind a ClusterRole with these rules to the ServiceAccount stowage-provisioner"},
	}},
}

// defaultProbe is the reference's.
var defaultProbe = map[string]any{
	"tcpSocket": map[string]any{"port": "metrics"}, "initialDelaySeconds": int64(10), "periodSeconds": int64(60), "timeoutSeconds": int64(5), "failureThreshold": int64(3),
}

// monitorRules are those of a ServiceMonitor. labels is the name of its labels.
func monitorRules(labels string, enabled rule) map[string]rule {
	return map[string]rule{
		"enabled":     enabled,
		"interval":    {kind: text, to: "monitoring.serviceMonitor.interval"},
		"namespace":   {kind: text, lost: "monitors are in the namespace of the chart: remove it; an operator that selects by namespace must select that one"},
		labels:        {kind: object, to: "monitoring.labels"},
		"relabelings": {kind: list, lost: "monitors have no relabelings of the user: relabel in a monitor of your own, with monitoring.serviceMonitor.enabled: false"},
	}
}

// monitorEnabled makes monitors, and not the rules and the dashboard, which the reference does not have.
var monitorEnabled = rule{kind: boolean, convert: func(c *conversion, _ *field.Path, _ any, _ []string) {
	c.set(true, "monitoring", "enabled")
	c.set(false, "monitoring", "prometheusRule", "enabled")
	c.set(false, "monitoring", "dashboard", "enabled")
}}

// nothing is for values that are converted together with others.
func nothing(*conversion, *field.Path, any, []string) {}

// configText converts a value to a text in the provisioner's ConfigMap.
func configText(key string) func(*conversion, *field.Path, any, []string) {
	return func(c *conversion, at *field.Path, value any, _ []string) {
		data, err := yaml.Marshal(value)
		if err != nil {
			c.errs = append(c.errs, field.InternalError(at, err))
		}
		c.set(string(data), "provisioner", "config", key)
	}
}

// each adds the items of a list to another one.
func each(to ...string) func(*conversion, *field.Path, any, []string) {
	return func(c *conversion, _ *field.Path, value any, _ []string) {
		for _, item := range value.([]any) {
			c.add(item, to...)
		}
	}
}

// hostPaths converts paths of the node by the names of their volumes, each mounted at the same path.
func (c *conversion) hostPaths(at *field.Path, value any, _ []string) {
	paths := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		path, ok := paths[name].(string)
		if !ok {
			c.invalid(at.Child(name), text)
			continue
		}
		c.add(map[string]any{"name": name, "hostPath": map[string]any{"path": path}}, "provisioner", "extraVolumes")
		c.add(map[string]any{"name": name, "mountPath": path}, "provisioner", "extraVolumeMounts")
	}
}

func (c *conversion) kubeconfig(_ *field.Path, value any, _ []string) {
	c.add(map[string]any{"name": "KUBECONFIG", "value": value}, "provisioner", "extraEnv")
}

// verbosity is the argument that sets how much is logged.
var verbosity = regexp.MustCompile(`^--?v=([0-9]+)$`)

func (c *conversion) arguments(at *field.Path, value any, _ []string) {
	for i, argument := range value.([]any) {
		if found := verbosity.FindStringSubmatch(fmt.Sprint(argument)); found != nil {
			level, _ := strconv.ParseInt(found[1], 10, 64) // of digits
			c.set(level, "provisioner", "logLevel")
			continue
		}
		c.warn(at.Index(i), fmt.Sprintf("%v is a flag of the reference: remove it, or write a flag of stowage-provisioner to provisioner.extraArgs", argument))
	}
}

// defaultTaint is the key of the reference's startup taint.
const defaultTaint = "sig-storage-local-static-provisioner/agent-not-ready"

// tolerate converts the tolerations of the pods and the startup taint, which the pods tolerate. Without tolerations, pods run
// on no node with taints, while those of Stowage's chart tolerate all.
func (c *conversion) tolerate(values map[string]any) {
	tolerations, _ := values["tolerations"].([]any)
	if remove, _ := values["removeNodeNotReadyTaint"].(bool); remove {
		key, _ := values["provisionerNotReadyNodeTaintKey"].(string)
		if key == "" {
			key = defaultTaint
		}
		c.set(key, "provisioner", "startupTaint", "key")
		tolerations = append(slices.Clone(tolerations), map[string]any{"key": key, "operator": "Exists"})
	}
	if jobs, _ := values["useJobForCleaning"].(bool); jobs && !empty(values["tolerations"]) {
		configText("jobTolerations")(c, nil, values["tolerations"], nil)
	}
	c.set(append([]any{}, tolerations...), "provisioner", "tolerations")
}
