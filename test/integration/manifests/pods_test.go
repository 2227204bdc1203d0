// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// podsOf are the pods that the workloads of a folder make, by name of the workload.
func podsOf(t *testing.T, folder string) map[string]corev1.PodSpec {
	t.Helper()
	pods := map[string]corev1.PodSpec{}
	for _, o := range kustomize(t, folder) {
		switch o.GetKind() {
		case "Deployment":
			pods[o.GetName()] = as[appsv1.Deployment](t, o).Spec.Template.Spec
		case "DaemonSet":
			pods[o.GetName()] = as[appsv1.DaemonSet](t, o).Spec.Template.Spec
		case "Job":
			pods[o.GetName()] = as[batchv1.Job](t, o).Spec.Template.Spec
		}
	}
	return pods
}

// TestKindPage: the API server accepts the StatefulSet of docs/kind.md, and its class is installed.
func TestKindPage(t *testing.T) {
	install(t)
	for _, block := range yamlOf(t, "kind.md") {
		if strings.HasPrefix(block, "apiVersion: apps/v1\n") {
			acceptStatefulSet(t, parse(t, block)[0], nil)
			return
		}
	}
	t.Error("the page has no StatefulSet")
}

// yamlOf returns the YAML of a page.
func yamlOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "\n```yaml\n")[1:]
	for i, block := range blocks {
		blocks[i], _, _ = strings.Cut(block, "```\n")
	}
	return blocks
}

// acceptStatefulSet checks that the API server accepts a StatefulSet, and that the classes of its claims
// are among made or installed.
func acceptStatefulSet(t *testing.T, o object, made []string) {
	t.Helper()
	if err := cluster.Apply(t.Context(), admin, o, metav1.DryRunAll); err != nil {
		t.Error(err)
	}
	for _, claim := range as[appsv1.StatefulSet](t, o).Spec.VolumeClaimTemplates {
		class := *claim.Spec.StorageClassName
		if slices.Contains(made, class) {
			continue
		}
		if _, err := shared.Client().StorageV1().StorageClasses().Get(t.Context(), class, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestLocalDisksPage: the chart renders the values of docs/local-disks.md, the API server accepts these
// objects and the page's own, and the provisioner their configuration. The class is the same in all.
func TestLocalDisksPage(t *testing.T) {
	install(t)
	const class = "local-nvme"
	values, sets := 0, 0
	for _, block := range yamlOf(t, "local-disks.md") {
		var objects []object
		switch {
		case strings.HasPrefix(block, "apiVersion: apps/v1\n"):
			acceptStatefulSet(t, parse(t, block)[0], []string{class})
			sets++
			continue
		case strings.HasPrefix(block, "apiVersion: "):
			objects = parse(t, block)
		default:
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := command(t, tools.helm, "template", release, chart, "--namespace", namespace, "--kube-version", "1.37.1", "--values", file)
			if err != nil {
				t.Fatal(err)
			}
			objects = parse(t, out)
			values++
		}
		checkClass(t, objects, class)
	}
	if values != 4 || sets != 1 {
		t.Errorf("the page has values for %d platforms and %d StatefulSets, want 4 and 1", values, sets)
	}
}

// checkClass checks that the API server accepts objects, and that they configure a class of local volumes
// and no other.
func checkClass(t *testing.T, objects []object, class string) {
	t.Helper()
	found := byName(t, objects)
	for _, o := range objects {
		if err := cluster.Apply(t.Context(), admin, o, metav1.DryRunAll); err != nil {
			t.Error(err)
		}
	}
	storageClass, settings, nodes := found["StorageClass "+class], found[namespace+"/ConfigMap stowage-provisioner"], found[namespace+"/ConfigMap stowage-provisioner-nodes"]
	if storageClass == nil || settings == nil || nodes == nil {
		t.Fatalf("of the class, %d objects have no StorageClass or ConfigMap", len(objects))
	}
	if mode := as[storagev1.StorageClass](t, storageClass).VolumeBindingMode; *mode != storagev1.VolumeBindingWaitForFirstConsumer {
		t.Errorf("the volumes are bound by %s", *mode)
	}
	config, err := provisioner.Decode(as[corev1.ConfigMap](t, settings).Data)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(maps.Keys(config.Classes)); !slices.Equal(got, []string{class}) || config.Classes[class].Devices == nil || !config.ListDisks {
		t.Errorf("the configuration has the classes %q, or rules or listing of disks lack", got)
	}
	if got := as[corev1.ConfigMap](t, nodes).Data["classes"]; got != class {
		t.Errorf("provisioners may publish volumes of %q, want %q", got, class)
	}
}

// TestPodSecurity: all pods but those of the provisioners and of the node service are admitted where the
// strictest level is enforced. These are not, and are in their own namespace, whose label is for them.
func TestPodSecurity(t *testing.T) {
	install(t)
	restricted, err := shared.NewNamespace(t.Context(), "restricted")
	if err != nil {
		t.Fatal(err)
	}
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := shared.Client().CoreV1().Namespaces().Patch(t.Context(), restricted, "application/merge-patch+json", label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	admitted := func(space string, spec corev1.PodSpec) error {
		spec.ServiceAccountName, spec.PriorityClassName = "", ""
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: space}, Spec: spec}
		_, err := shared.Client().CoreV1().Pods(space).Create(t.Context(), pod, dryRun)
		return err
	}
	for _, folder := range []string{"scheduler/second", "extender/full", "extender/advisory", "controller", "uninstall"} {
		for name, spec := range podsOf(t, folder) {
			if err := admitted(restricted, spec); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, folder := range []string{"provisioner", "csi"} {
		for name, spec := range podsOf(t, folder) {
			if err := admitted(restricted, spec); err == nil {
				t.Errorf("%s is admitted where restricted is enforced: the namespace need not be privileged", name)
			}
			if err := admitted(namespace, spec); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestHardened: restrictions that Pod Security does not check.
func TestHardened(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"scheduler/second", "extender/full", "controller", "uninstall", "provisioner", "csi"} {
		for name, spec := range podsOf(t, folder) {
			for _, c := range spec.Containers {
				if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
					t.Errorf("%s: container %s can write to its root", name, c.Name)
				}
				if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
					t.Errorf("%s: container %s requests no processor or memory", name, c.Name)
				}
			}
			if spec.PriorityClassName == "" && folder != "uninstall" {
				t.Errorf("%s has no priority", name)
			}
		}
	}
}

// needsPolicies skips a test of shipped MutatingAdmissionPolicies on an API server without that kind.
func needsPolicies(t *testing.T) {
	t.Helper()
	if version := fixture.PolicyVersion(); version != "admissionregistration.k8s.io/v1" {
		t.Skip("this version of Kubernetes has MutatingAdmissionPolicy only in " + version)
	}
}

// TestSchedulerName: in labelled namespaces pods with claims get our scheduler, others do not.
func TestSchedulerName(t *testing.T) {
	t.Parallel()
	needsPolicies(t)
	for _, o := range kustomize(t, "policies") {
		if err := cluster.Apply(t.Context(), admin, o); err != nil {
			t.Fatal(err)
		}
	}
	space := map[bool]string{}
	for _, labelled := range []bool{true, false} {
		var err error
		if space[labelled], err = shared.NewNamespace(t.Context(), "named"); err != nil {
			t.Fatal(err)
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{"stowage.dev/scheduler": "enabled"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Client().CoreV1().Namespaces().Patch(t.Context(), space[true], "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	scheduler := func(space string, pod *corev1.Pod) string {
		t.Helper()
		made, err := shared.Client().CoreV1().Pods(space).Create(t.Context(), pod, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		return made.Spec.SchedulerName
	}
	waitFor(t, "the policy is in force", func() bool {
		return scheduler(space[true], builders.MakePod("p").Namespace(space[true]).PVC("c").Obj()) == "stowage-scheduler"
	})
	theirs := builders.MakePod("p").Namespace(space[true]).PVC("c").Obj()
	theirs.Spec.SchedulerName = "another"
	for scenario, test := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a pod without claims":             {builders.MakePod("p").Namespace(space[true]).Obj(), "default-scheduler"},
		"one that names another scheduler": {theirs, "another"},
		"a namespace that is not labelled": {builders.MakePod("p").Namespace(space[false]).PVC("c").Obj(), "default-scheduler"},
	} {
		if got := scheduler(test.pod.Namespace, test.pod); got != test.want {
			t.Errorf("%s: scheduler %s, want %s", scenario, got, test.want)
		}
	}
}

// TestMarkedForExtender: pods with claims are marked if their scheduler calls the
// extender; the chart has a value for the schedulers.
func TestMarkedForExtender(t *testing.T) {
	t.Parallel()
	needsPolicies(t)
	const mark = "stowage.dev/volumes"
	space, err := shared.NewNamespace(t.Context(), "marked")
	if err != nil {
		t.Fatal(err)
	}
	marked := func(pod *builders.Pod) bool {
		t.Helper()
		made, err := shared.Client().CoreV1().Pods(space).Create(t.Context(), pod.Obj(), dryRun)
		if err != nil {
			t.Fatal(err)
		}
		resources := made.Spec.Containers[0].Resources
		request, limit := resources.Requests[mark], resources.Limits[mark]
		return request.Value() == 1 && limit.Value() == 1
	}
	pod := func() *builders.Pod { return builders.MakePod("p").Namespace(space).PVC("c") }
	apply := func(objects []object) {
		t.Helper()
		for _, o := range objects {
			if strings.HasPrefix(o.GetKind(), "MutatingAdmissionPolicy") {
				if err := cluster.Apply(t.Context(), admin, o); err != nil {
					t.Fatal(err)
				}
			}
		}
	}

	apply(kustomize(t, "extender/full"))
	waitFor(t, "the policy is in force", func() bool { return marked(pod()) })
	for scenario, other := range map[string]*builders.Pod{
		"a pod without claims":             builders.MakePod("p").Namespace(space),
		"one that names another scheduler": pod().SchedulerName("batch"),
	} {
		if marked(other) {
			t.Errorf("%s is marked", scenario)
		}
	}
	apply(render(t, "extender.enabled=true", `extender.schedulerNames=["default-scheduler","batch"]`))
	waitFor(t, "the scheduler that the chart names is in force", func() bool { return marked(pod().SchedulerName("batch")) })
	if !marked(pod()) || marked(pod().SchedulerName("stowage-scheduler")) {
		t.Error("want only the pods of the chart's schedulers marked")
	}
}
