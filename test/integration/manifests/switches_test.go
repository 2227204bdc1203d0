// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/test/cluster"
)

// change is a value of the chart and its effect.
type change struct {
	set []string // the value first, then required ones
	// has and lacks are texts of objects, as JSON, that the defaults do not have,
	// or have.
	has, lacks string
	// objects is the number of added, or removed, objects.
	objects int
}

// everyPart are values that each part takes; PART is its name.
var everyPart = map[string]change{
	"image.repository":          {set: []string{"PART.image.repository=registry.example:5000/mine"}, has: `"image":"registry.example:5000/mine:dev`},
	"image.tag":                 {set: []string{"PART.image.tag=v9"}, has: `/stowage-PART:v9"`},
	"image.digest":              {set: []string{"PART.image.digest=sha256:" + strings.Repeat("0a", 32)}, has: `/stowage-PART@sha256:0a0a`},
	"resources":                 {set: []string{`PART.resources={"limits":{"memory":"777Mi"}}`}, has: `"resources":{"limits":{"memory":"777Mi"}}`},
	"nodeSelector":              {set: []string{`PART.nodeSelector={"disks":"many"}`}, has: `"nodeSelector":{"disks":"many"}`},
	"tolerations":               {set: []string{`PART.tolerations=[{"key":"mine","operator":"Exists"}]`}, has: `"tolerations":[{"key":"mine","operator":"Exists"}]`},
	"affinity":                  {set: []string{`PART.affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Exists"}]}]}}}`}, has: `"affinity":{"nodeAffinity":`},
	"topologySpreadConstraints": {set: []string{`PART.topologySpreadConstraints=[{"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{}}]`}, has: `"topologyKey":"zone"`},
	"priorityClassName":         {set: []string{"PART.priorityClassName=mine"}, has: `"priorityClassName":"mine"`},
	"podLabels":                 {set: []string{`PART.podLabels={"team":"storage"}`}, has: `"team":"storage"`},
	"podAnnotations":            {set: []string{`PART.podAnnotations={"note":"mine"}`}, has: `"note":"mine"`},
	"extraEnv":                  {set: []string{`PART.extraEnv=[{"name":"GOMAXPROCS","value":"1"}]`}, has: `{"name":"GOMAXPROCS","value":"1"}`},
	"extraArgs":                 {set: []string{`PART.extraArgs=["--logging-format=json"]`}, has: `"--logging-format=json"]`},
	"logLevel":                  {set: []string{"PART.logLevel=4"}, has: `"--v=4"]`},
	"image.pullPolicy":          {set: []string{"PART.image.pullPolicy=Always"}, has: `"imagePullPolicy":"Always"`},
	"initContainers":            {set: []string{`PART.initContainers=[{"name":"mount","image":"mine"}]`}, has: `"initContainers":[{"image":"mine","name":"mount"}]`},
	"extraVolumes":              {set: []string{`PART.extraVolumes=[{"name":"mine","emptyDir":{}}]`}, has: `{"emptyDir":{},"name":"mine"}`},
	"extraVolumeMounts":         {set: []string{`PART.extraVolumeMounts=[{"name":"mine","mountPath":"/mine"}]`, `PART.extraVolumes=[{"name":"mine","emptyDir":{}}]`}, has: `{"mountPath":"/mine","name":"mine"}`},
	"replicaCount":              {set: []string{"PART.replicaCount=3"}, has: `"replicas":3`},
}

// switches are all other values of the chart.
var switches = map[string]change{
	"image.registry":                                   {set: []string{"image.registry=registry.example:5000/mirror"}, has: `"image":"registry.example:5000/mirror/stowage-scheduler:dev-kube1.37"`, lacks: "stowage.dev/stowage-"},
	"image.tag":                                        {set: []string{"image.tag=v9"}, has: "stowage.dev/stowage-provisioner:v9"},
	"image.pullPolicy":                                 {set: []string{"image.pullPolicy=Always"}, has: `"imagePullPolicy":"Always"`, lacks: `"imagePullPolicy":"IfNotPresent"`},
	"imagePullSecrets":                                 {set: []string{`imagePullSecrets=[{"name":"mine"}]`}, has: `"imagePullSecrets":[{"name":"mine"}]`},
	"commonLabels":                                     {set: []string{`commonLabels={"team":"storage"}`}, has: `"team":"storage"`},
	"networkPolicy.enabled":                            {set: []string{"networkPolicy.enabled=true"}, has: `"kind":"NetworkPolicy"`, objects: 3},
	"metrics.secure":                                   {set: []string{"metrics.secure=true"}, has: `"--secure-metrics"`, objects: 2},
	"networkPolicy.metricsFrom":                        {set: []string{`networkPolicy.metricsFrom=[{"podSelector":{"matchLabels":{"mine":"yes"}}}]`, "networkPolicy.enabled=true"}, has: `"from":[{"podSelector":{"matchLabels":{"mine":"yes"}}}]`, objects: 3},
	"priorityClassQuota":                               {set: []string{"priorityClassQuota=true"}, has: `"kind":"ResourceQuota"`, objects: 1},
	"openshift":                                        {set: []string{"openshift=true"}, has: `"kind":"SecurityContextConstraints"`, objects: 1},
	"networkPolicy.apiServerPorts":                     {set: []string{"networkPolicy.apiServerPorts=[443,16443]", "networkPolicy.enabled=true"}, has: `"egress":[{"ports":[{"port":443},{"port":16443},{"port":53},{"port":53,"protocol":"UDP"}]}]`, objects: 3},
	"podDisruptionBudget.enabled":                      {set: []string{"podDisruptionBudget.enabled=false"}, lacks: `"kind":"PodDisruptionBudget"`, objects: -2},
	"crds.enabled":                                     {set: []string{"crds.enabled=false"}, lacks: `"kind":"CustomResourceDefinition"`, objects: -3},
	"crds.keep":                                        {set: []string{"crds.keep=false"}, lacks: `"helm.sh/resource-policy":"keep"`},
	"scheduler.enabled":                                {set: []string{"scheduler.enabled=false"}, lacks: "stowage-scheduler", objects: -11},
	"scheduler.name":                                   {set: []string{"scheduler.name=volumes"}, has: "schedulerName: volumes"},
	"scheduler.args":                                   {set: []string{`scheduler.args={"bindingMode":"PVController"}`}, has: "bindingMode: PVController", lacks: "bindingMode: Direct"},
	"scheduler.config":                                 {set: []string{`scheduler.config={"parallelism":4}`}, has: "parallelism: 4"},
	"scheduler.rightsForKubeScheduler":                 {set: []string{"scheduler.rightsForKubeScheduler=true"}, has: `"name":"kube-scheduler-direct-binding"`, objects: 1},
	"policies.schedulerName":                           {set: []string{"policies.schedulerName=true", "scheduler.name=volumes"}, has: `Object{spec: Object.spec{schedulerName: \"volumes\"}}`, objects: 2},
	"extender.enabled":                                 {set: []string{"extender.enabled=true"}, has: "stowage-extender", objects: 12},
	"extender.mode":                                    {set: []string{"extender.mode=Advisory", "extender.enabled=true"}, has: "mode: Advisory", objects: 11},
	"extender.servingSecret":                           {set: []string{"extender.servingSecret=mine", "extender.enabled=true"}, has: `"secretName":"mine"`, objects: 12},
	"extender.clientsConfigMap":                        {set: []string{"extender.clientsConfigMap=mine", "extender.enabled=true"}, has: `"configMap":{"name":"mine"}`, objects: 12},
	"extender.schedulerNames":                          {set: []string{`extender.schedulerNames=["default-scheduler","batch"]`, "extender.enabled=true"}, has: `in ['default-scheduler', 'batch']`, objects: 12},
	"extender.failurePolicy":                           {set: []string{"extender.failurePolicy=Ignore", "extender.enabled=true"}, has: `"failurePolicy":"Ignore"`, objects: 12},
	"extender.config":                                  {set: []string{`extender.config={"timeouts":{"verb":"3s"}}`, "extender.enabled=true"}, has: "verb: 3s", objects: 12},
	"provisioner.enabled":                              {set: []string{"provisioner.enabled=false"}, lacks: `"kind":"DaemonSet"`, objects: -34},
	"provisioner.classes":                              {set: []string{`provisioner.classes={"fast":{"settings":{"hostDir":"/mnt/fast","volumeMode":"Block"}}}`}, has: `"hostPath":{"path":"/mnt/fast","type":"DirectoryOrCreate"}`, objects: 1},
	"provisioner.classes.*.settings":                   {set: []string{"provisioner.classes.local-disks.settings.mountDir=/disks"}, has: `"mountPath":"/disks"`},
	"provisioner.classes.*.settings.devices":           {set: []string{`provisioner.classes.local-disks.settings={"hostDir":null,"devices":{"include":[{"transport":"nvme"}]}}`}, has: "- transport: nvme", lacks: `"path":"/mnt/disks"`},
	"provisioner.classes.*.settings.hostDir":           {set: []string{"provisioner.classes.local-disks.settings.hostDir=/srv"}, has: "hostDir: /srv"},
	"provisioner.classes.*.settings.mountDir":          {set: []string{"provisioner.classes.local-disks.settings.mountDir=/disks"}, has: "mountDir: /disks"},
	"provisioner.classes.*.settings.mount":             {set: []string{"provisioner.classes.local-disks.settings.mount=Agent", "provisioner.classes.local-disks.settings.fsType=ext4"}, has: `"mountPath":"/var/lib/stowage/mounts","mountPropagation":"Bidirectional"`},
	"provisioner.classes.*.storageClass":               {set: []string{`provisioner.classes.local-disks.storageClass={"create":false}`}, lacks: `"kind":"StorageClass"`, objects: -1},
	"provisioner.classes.*.storageClass.create":        {set: []string{"provisioner.classes.local-disks.storageClass.create=false"}, lacks: `"kind":"StorageClass"`, objects: -1},
	"provisioner.classes.*.storageClass.reclaimPolicy": {set: []string{"provisioner.classes.local-disks.storageClass.reclaimPolicy=Retain"}, has: `"reclaimPolicy":"Retain"`},
	"provisioner.classes.*.storageClass.mountOptions":  {set: []string{`provisioner.classes.local-disks.storageClass.mountOptions=["noatime"]`}, has: `"mountOptions":["noatime"]`},
	"provisioner.classes.*.storageClass.annotations":   {set: []string{`provisioner.classes.local-disks.storageClass.annotations={"stowage.dev/node-loss":"Release"}`}, has: `"stowage.dev/node-loss":"Release"`},
	"provisioner.config":                               {set: []string{`provisioner.config={"maxCleaning":"4"}`}, has: `"maxCleaning":"4"`},
	"provisioner.hostnames":                            {set: []string{`provisioner.hostnames={"n1.example.com":"n1"}`}, has: `"host.n1.example.com":"n1"`},
	"provisioner.startupTaint.enabled":                 {set: []string{"provisioner.startupTaint.enabled=true"}, has: `"removeNodeNotReadyTaint":"true"`, objects: 2},
	"provisioner.startupTaint.key":                     {set: []string{"provisioner.startupTaint.key=mine/taint", "provisioner.startupTaint.enabled=true"}, has: `"resourceNames":["mine/taint"]`, objects: 2},
	"kubeletDir":                                       {set: []string{"kubeletDir=/var/lib/k0s/kubelet"}, has: `"hostPath":{"path":"/var/lib/k0s/kubelet"`},
	"provisioner.stateDir":                             {set: []string{"provisioner.stateDir=/var/state"}, has: `"hostPath":{"path":"/var/state","type":"DirectoryOrCreate"}`, lacks: `"hostPath":{"path":"/var/lib/stowage"`},
	"provisioner.controlPlaneNodes":                    {set: []string{"provisioner.controlPlaneNodes=false"}, has: `{"key":"node-role.kubernetes.io/control-plane","operator":"DoesNotExist"}`},
	"provisioner.maxUnavailable":                       {set: []string{"provisioner.maxUnavailable=3"}, has: `"maxUnavailable":3`},
	"provisioner.releaseOnUninstall":                   {set: []string{"provisioner.releaseOnUninstall=false"}, lacks: "stowage-release", objects: -6},
	"controller.enabled":                               {set: []string{"controller.enabled=false"}, lacks: `"name":"stowage-controller-config"`, objects: -8},
	"controller.cleaningJobs":                          {set: []string{"controller.cleaningJobs=true"}, has: "cleaningJobs:\\n  enabled: true", objects: 4},
	"controller.bindNow":                               {set: []string{"controller.bindNow=true"}, has: "bindNow:\\n    enabled: true", objects: 2},
	"controller.inPlace":                               {set: []string{"controller.inPlace=true"}, has: "inPlace:\\n    enabled: true", objects: 2},
	"controller.config":                                {set: []string{`controller.config={"nodeLoss":{"policy":"Release"}}`}, has: "policy: Release"},
	"pav.enabled":                                      {set: []string{"pav.enabled=true"}, has: `"name":"stowage-csi"`, objects: pavObjects},
	"pav.namespace":                                    {set: []string{"pav.namespace=default", "pav.enabled=true"}, has: "namespace: default", objects: pavObjects},
	"pav.reporter.image.repository":                    {set: []string{"pav.reporter.image.repository=registry.example/mine", "pav.enabled=true"}, has: "reporterImage: registry.example/mine:dev", objects: pavObjects},
	"pav.reporter.image.tag":                           {set: []string{"pav.reporter.image.tag=v9", "pav.enabled=true"}, has: "reporterImage: stowage.dev/stowage-pav-reporter:v9", objects: pavObjects},
	"pav.reporter.image.digest":                        {set: []string{"pav.reporter.image.digest=sha256:" + strings.Repeat("0a", 32), "pav.enabled=true"}, has: "reporterImage: stowage.dev/stowage-pav-reporter@sha256:0a0a", objects: pavObjects},
	"pav.csi.maxVolumesPerNode":                        {set: []string{"pav.csi.maxVolumesPerNode=7", "pav.enabled=true"}, has: `"args":["--max-volumes-per-node=7"]`, objects: pavObjects},
	"pav.csi.maxUnavailable":                           {set: []string{"pav.csi.maxUnavailable=3", "pav.enabled=true"}, has: `"maxUnavailable":3`, objects: pavObjects},
	"monitoring.enabled":                               {set: []string{"monitoring.enabled=true"}, has: `"kind":"PodMonitor"`, objects: 9},
	"monitoring.serviceMonitor.enabled":                {set: []string{"monitoring.serviceMonitor.enabled=false", "monitoring.enabled=true"}, has: `"kind":"PrometheusRule"`, objects: 6},
	"monitoring.prometheusRule.enabled":                {set: []string{"monitoring.prometheusRule.enabled=false", "monitoring.enabled=true"}, has: `"kind":"PodMonitor"`, objects: 6},
	"monitoring.dashboard.enabled":                     {set: []string{"monitoring.dashboard.enabled=false", "monitoring.enabled=true"}, has: `"kind":"PodMonitor"`, objects: 8},
	"monitoring.dashboard.labels":                      {set: []string{`monitoring.dashboard.labels={"mine":"yes","grafana_dashboard":null}`, "monitoring.enabled=true"}, has: `"mine":"yes"`, objects: 9},
	"monitoring.labels":                                {set: []string{`monitoring.labels={"release":"prometheus"}`, "monitoring.enabled=true"}, has: `"release":"prometheus"`, objects: 9},
	"monitoring.prometheusRule.runbookURL":             {set: []string{"monitoring.prometheusRule.runbookURL=https://wiki.example/stowage", "monitoring.enabled=true"}, has: `"runbook_url":"https://wiki.example/stowage#stowageprovisionerdown"`, objects: 9},
	"monitoring.serviceMonitor.interval":               {set: []string{"monitoring.serviceMonitor.interval=15s", "monitoring.enabled=true"}, has: `"interval":"15s"`, objects: 9},
	"monitoring.prometheusServiceAccount":              {set: []string{`monitoring.prometheusServiceAccount={"namespace":"monitoring","name":"prometheus"}`, "monitoring.enabled=true"}, has: `"kind":"ServiceAccount","name":"prometheus","namespace":"monitoring"`, objects: 10},
	"monitoring.prometheusServiceAccount.namespace":    {set: []string{"monitoring.prometheusServiceAccount.namespace=monitoring", "monitoring.prometheusServiceAccount.name=p", "monitoring.enabled=true"}, has: `"namespace":"monitoring"`, objects: 10},
	"monitoring.prometheusServiceAccount.name":         {set: []string{"monitoring.prometheusServiceAccount.name=p", "monitoring.prometheusServiceAccount.namespace=monitoring", "monitoring.enabled=true"}, has: `"name":"p"`, objects: 10},
}

// pavObjects is how many objects pav.enabled adds: 3 kinds; namespace, priority class, 2 roles and bindings, and
// policy and binding for the controller; account, role, binding, policy and binding, and DaemonSet of the node service.
const pavObjects = 3 + 8 + 6

// workloads are the parts that take everyPart.
var workloads = []string{"scheduler", "extender", "provisioner", "controller", "pav.csi"}

// onEachNode are those that take no replicas.
var onEachNode = []string{"provisioner", "pav.csi"}

// allSwitches has those of every part too.
func allSwitches() map[string]change {
	all := maps.Clone(switches)
	for _, part := range workloads {
		for key, c := range everyPart {
			if slices.Contains(onEachNode, part) && key == "replicaCount" {
				continue
			}
			switch c.set = slices.Clone(c.set); part {
			case "extender":
				c.set, c.objects = append(c.set, "extender.enabled=true"), 12
			case "pav.csi":
				c.set, c.objects = append(c.set, "pav.enabled=true"), pavObjects
			}
			for i := range c.set {
				c.set[i] = strings.ReplaceAll(c.set[i], "PART", part)
			}
			c.has = strings.ReplaceAll(c.has, "PART", strings.TrimPrefix(part, "pav."))
			all[part+"."+key] = c
		}
	}
	return all
}

// text is objects as JSON.
func text(t *testing.T, objects []object) string {
	t.Helper()
	data, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestSwitches: each value has its effect, and the API server accepts the result.
func TestSwitches(t *testing.T) {
	install(t)
	defaults := render(t)
	before, known := text(t, defaults), map[string]bool{}
	for _, o := range defaults {
		known[text(t, []object{o})] = true // TestKustomizations has sent these
	}
	for key, c := range allSwitches() {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			objects := render(t, c.set...)
			after := text(t, objects)
			if c.has != "" && !strings.Contains(after, c.has) || c.lacks != "" && strings.Contains(after, c.lacks) {
				t.Errorf("with %v: want %q and not %q", c.set, c.has, c.lacks)
			}
			if c.has != "" && strings.Contains(before, c.has) || c.lacks != "" && !strings.Contains(before, c.lacks) || c.has+c.lacks == "" {
				t.Errorf("%q and %q do not differ from the defaults", c.has, c.lacks)
			}
			if got := len(objects) - len(defaults); got != c.objects {
				t.Errorf("with %v there are %+d objects, want %+d", c.set, got, c.objects)
			}
			for key, o := range byName(t, objects) {
				if known[text(t, []object{o})] || !served(o) {
					continue
				}
				if o.GetKind() == "StorageClass" {
					o.SetName("another") // the existing object is immutable
				}
				if err := cluster.Apply(t.Context(), admin, o, metav1.DryRunAll); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
	}
}

// TestEveryValueIsTried: values.yaml, the schema and the table above have the same
// values.
func TestEveryValueIsTried(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	data, err := os.ReadFile(chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if data, err = os.ReadFile(chart + "/values.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	inSchema := map[string]bool{}
	leaves(schema, schema, "", inSchema)
	delete(inSchema, "global") // Helm's own
	tried := allSwitches()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(inSchema)), slices.Sorted(maps.Keys(tried))); diff != "" {
		t.Errorf("values (-schema +tried):\n%s", diff)
	}
	for key := range everyPart {
		for _, part := range workloads {
			if delete(inSchema, part+"."+key); key == "replicaCount" && !slices.Contains(onEachNode, part) {
				inSchema[part+"."+key] = true // which values.yaml has
			}
		}
	}
	for key := range inSchema {
		path := strings.Split(strings.ReplaceAll(key, "*", "local-disks"), ".")
		if parent, ok := dig(values, path[:len(path)-1]...).(map[string]any); !ok || parent[path[len(path)-1]] == nil {
			if !strings.HasPrefix(key, "pav.reporter.image.") && !slices.Contains([]string{"provisioner.classes.*.settings.devices", "provisioner.classes.*.settings.mount", "provisioner.classes.*.settings.mountDir", "monitoring.prometheusServiceAccount.name", "monitoring.prometheusServiceAccount.namespace"}, key) {
				t.Errorf("values.yaml has no %s", key)
			}
		}
	}
}

// leaves collects the paths of values that a schema knows: of objects with properties
// those of these.
func leaves(root, schema map[string]any, path string, found map[string]bool) {
	for ref, ok := schema["$ref"].(string); ok; ref, ok = schema["$ref"].(string) {
		schema, _ = dig(root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...).(map[string]any)
		if strings.HasSuffix(ref, "/resources") {
			found[path] = true // Kubernetes' own
			return
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	patterns, _ := schema["patternProperties"].(map[string]any)
	var further map[string]any
	for _, value := range patterns {
		further, _ = value.(map[string]any)
	}
	if nested, _ := further["properties"].(map[string]any); nested != nil {
		found[path] = true
		leaves(root, further, path+".*", found)
		return
	}
	if len(properties) == 0 || strings.HasSuffix(path, ".settings") || strings.HasSuffix(path, ".prometheusServiceAccount") || strings.HasSuffix(path, ".storageClass") {
		found[path] = true
	}
	if strings.HasSuffix(path, ".args") || path == "imagePullSecrets" {
		found[path] = true // the component's own
		return
	}
	for key, value := range properties {
		if nested, ok := value.(map[string]any); ok {
			leaves(root, nested, strings.TrimPrefix(path+"."+key, "."), found)
		}
	}
}

// TestContradictions: values of which one needs a part that another one turns off are
// refused, by both their names.
func TestContradictions(t *testing.T) {
	t.Parallel()
	for value, part := range map[string]string{"controller.cleaningJobs": "controller.enabled", "controller.bindNow": "controller.enabled", "controller.inPlace": "controller.enabled", "policies.schedulerName": "scheduler.enabled", "pav.enabled": "controller.enabled"} {
		_, err := template(t, value+"=true", part+"=false")
		if err == nil || !strings.Contains(err.Error(), value+": must not be true while "+part+" is false") {
			t.Errorf("%s without %s: %v", value, part, err)
		}
	}
	for value, want := range map[string]string{
		"controller.config.pavVolumes.enabled=false": "controller.config.pavVolumes: must not be set while pav.enabled is true",
		"pav.namespace=" + namespace:                 "pav.namespace: must not be " + namespace,
		"pav.namespace=stowage-node-lease":           "pav.namespace: must not be stowage-node-lease",
	} {
		if _, err := template(t, "pav.enabled=true", value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}

// TestBadValues: each invalid value is rejected with an error that names it.
func TestBadValues(t *testing.T) {
	t.Parallel()
	for set, want := range map[string][]string{
		"scheduler.replicaCount=many":                                        {"/scheduler/replicaCount", "want integer"},
		"scheduler.replicas=2":                                               {"/scheduler", "replicas"},
		"scheduler.name=default-scheduler":                                   {"/scheduler/name"},
		"scheduler.args.bindingMode=direct":                                  {"/scheduler/args/bindingMode", "Direct", "PVController"},
		"scheduler.args.bindingmode=Direct":                                  {"/scheduler/args", "bindingmode"},
		"extender.mode=full":                                                 {"/extender/mode", "Full", "Advisory"},
		"extender.schedulerNames=[]":                                         {"/extender/schedulerNames"},
		`extender.schedulerNames=["it's"]`:                                   {"/extender/schedulerNames/0"},
		"extender.failurePolicy=Warn":                                        {"/extender/failurePolicy", "Fail", "Ignore"},
		"image.pullPolicy=Sometimes":                                         {"/image/pullPolicy", "IfNotPresent"},
		"image.tag=a b":                                                      {"/image/tag"},
		"controller.image.digest=sha256:12":                                  {"/controller/image/digest"},
		"provisioner.classes.local-disks.settings.hostDir=disks":             {"/provisioner/classes/local-disks/settings/hostDir"},
		`provisioner.classes={"Fast":{"settings":{"hostDir":"/mnt"}}}`:       {"/provisioner/classes", "Fast"},
		`provisioner.classes={"fast":{"settings":{"fsType":"xfs"}}}`:         {"/provisioner/classes/fast/settings", "hostDir", "devices"},
		"provisioner.classes.local-disks.settings.devices.max=1":             {"provisioner.classes.local-disks.settings.hostDir: must be absent with devices"},
		`provisioner.classes={"fast":{}}`:                                    {"/provisioner/classes/fast", "settings"},
		`provisioner.classes={"local-disks":null}`:                           {"/provisioner/classes"},
		"provisioner.classes.local-disks.storageClass.reclaimPolicy=Recycle": {"reclaimPolicy", "Delete", "Retain"},
		`provisioner.config={"maxCleaning":4}`:                               {"/provisioner/config/maxCleaning", "want string"},
		"provisioner.maxUnavailable=all":                                     {"/provisioner/maxUnavailable"},
		"provisioner.replicaCount=2":                                         {"/provisioner", "replicaCount"},
		"pav.namespace=Helpers":                                              {"/pav/namespace"},
		"pav.csi.maxVolumesPerNode=-1":                                       {"/pav/csi/maxVolumesPerNode"},
		"pav.csi.replicaCount=2":                                             {"/pav/csi", "replicaCount"},
		"pav.reporter.image=mine":                                            {"/pav/reporter/image", "want object"},
		"controller.logLevel=loud":                                           {"/controller/logLevel", "want integer"},
		"networkPolicy.apiServerPorts=[70000]":                               {"/networkPolicy/apiServerPorts/0"},
		"monitoring.prometheusRule.runbookURL=wiki":                          {"/monitoring/prometheusRule/runbookURL"},
		"monitoring.serviceMonitor.interval=often":                           {"/monitoring/serviceMonitor/interval"},
		`networkPolicy.metricsFrom=[{}]`:                                     {"/networkPolicy/metricsFrom/0"},
		`networkPolicy.metricsFrom=[{"namespace":"monitoring"}]`:             {"/networkPolicy/metricsFrom/0", "namespace"},
		"provisioner.stateDir=state":                                         {"/provisioner/stateDir"},
		`monitoring.prometheusServiceAccount={"namespace":"m","name":"p\n- kind: Group\n  name: system:authenticated"}`: {"/monitoring/prometheusServiceAccount/name"},
		`monitoring.prometheusServiceAccount={"namespace":"m\nx","name":"p"}`:                                           {"/monitoring/prometheusServiceAccount/namespace"},
		"monitorng.enabled=true": {"monitorng"},
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, set)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q:\n%v", part, err)
				}
			}
		})
	}
}
