// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/fit"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: other}\nspec: {containers: [{name: c, image: c}]}\n"
	for name, test := range map[string]struct{ text, want string }{
		"nothing":            {"", "it is empty; it must have a StatefulSet, Deployment, ReplicaSet, Job or Pod"},
		"an empty document":  {"---\n---\n# nothing\n", "it is empty; it must have a StatefulSet, Deployment, ReplicaSet, Job or Pod"},
		"no YAML":            {"a: b: c", "document 1: error converting YAML to JSON: yaml: mapping values are not allowed in this context"},
		"no kind":            {"apiVersion: v1", `document 1: Object 'Kind' is missing in '{"apiVersion":"v1"}'`},
		"kinds without pods": {"apiVersion: v1\nkind: Node\nmetadata: {name: node}\n---\napiVersion: example.com/v1\nkind: Thing\n", "no object in it has pods that can be placed; it has Node, Thing, and must have a StatefulSet, Deployment, ReplicaSet, Job or Pod"},
		"a DaemonSet":        {"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\n", "DaemonSet d: DaemonSets are not supported; give its pod template as a Pod"},
		"an unknown field":   {strings.Replace(set(1, "", ""), "replicas:", "replica:", 1), `document 1: strict decoding error: unknown field "spec.replica"`},
		"two workloads":      {set(1, "", "") + "---" + deployment, "it has more than one object with pods: StatefulSet default/db, Deployment default/web; give one at a time"},
		"another namespace":  {pod, `Pod p: metadata.namespace is "other", and --namespace is "default": omit one of them`},
		"no name":            {strings.Replace(pod, "name: p, namespace: other", "", 1), "a Pod has no metadata.name"},
		"a selector that does not match": {strings.Replace(set(1, "", ""), "labels: {app: db}", "labels: {app: other}", 1),
			"StatefulSet db: spec.selector does not match spec.template.metadata.labels"},
	} {
		_, _, err := fit.Decode(strings.NewReader(test.text), "default", true)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	const pod = "template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}"
	for name, test := range map[string]struct {
		text     string
		want     string
		replicas int
		beside   int
	}{
		"a StatefulSet":                 {set(3, "", ""), "StatefulSet default/db", 3, 0},
		"a Deployment and a claim":      {deployment, "Deployment default/web", 3, 2},
		"a list":                        {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: p}}]", "Pod default/p", 1, 0},
		"JSON":                          {`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}}`, "Pod n/p", 1, 0},
		"a Job":                         {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 4, " + pod + "}", "Job default/j", 4, 0},
		"a Job with fewer completions":  {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 4, completions: 2, " + pod + "}", "Job default/j", 2, 0},
		"a ReplicaSet without replicas": {"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: r}\nspec: {selector: {matchLabels: {a: b}}, " + pod + "}", "ReplicaSet default/r", 1, 0},
		"kinds that no scheduler reads": {"apiVersion: example.com/v1\nkind: Thing\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "Pod default/p", 1, 0},
	} {
		w, beside, err := fit.Decode(strings.NewReader(test.text), "default", false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if w.String() != test.want || w.Replicas != test.replicas || len(beside) != test.beside {
			t.Errorf("%s: %s with %d replicas and %d objects beside it, want %s, %d and %d", name, w, w.Replicas, len(beside), test.want, test.replicas, test.beside)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 62)
	for name, test := range map[string]struct {
		manifest string
		want     string
	}{
		"an unknown class": {strings.Replace(set(1, "", ""), "storageClassName: local", "storageClassName: locl", 1),
			`claim data-db-0: there is no StorageClass "locl"; there is local`},
		"a claim that requests nothing": {strings.Replace(set(1, "", ""), "requests: {storage: 2Gi}", "", 1),
			"claim data-db-0: spec.resources[storage]: Required value"},
		"a claim of no access mode": {strings.Replace(set(1, "", ""), "accessModes: [ReadWriteOnce], ", "", 1), "claim data-db-0: spec.accessModes: Required value"},
		"a pod without image":       {strings.Replace(set(1, "", ""), ", image: db", "", 1), "pod db-0: spec.containers[0].image: Required value"},
		"a name that is too long":   {strings.Replace(set(1, "", ""), "{name: db}", "{name: "+long+"}", 1), "pod " + long + "-0: [metadata.labels: Invalid value"},
		"an unknown priority":       {set(1, "", "priorityClassName: high"), `pod db-0: spec.priorityClassName: there is no PriorityClass "high"`},
	} {
		w, beside := decode(t, test.manifest)
		_, err := fit.Run(t.Context(), config(snapshot.Build(cluster()...), w, beside...))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %s", name, err, test.want)
		}
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	w, err := fit.Claims{Claims: "2Gi, 1Gi:local:Block:rox", Namespace: "n", Scheduler: "s", OnePerNode: true}.Workload()
	if err != nil {
		t.Fatal(err)
	}
	if w.Namespace != "n" || w.Template.Spec.SchedulerName != "s" {
		t.Errorf("namespace %s and scheduler %s, want n and s", w.Namespace, w.Template.Spec.SchedulerName)
	}
	w.Replicas = 3
	s := snapshot.Build(cluster(
		pv("a-file", "a", "2Gi").Obj(), pv("a-block", "a", "2Gi").Block().AccessModes(corev1.ReadOnlyMany).Obj(),
		pv("b-file", "b", "3Gi").Obj(), pv("b-block", "b", "3Gi").Block().AccessModes(corev1.ReadOnlyMany).Obj(), pv("more", "b", "3Gi").Obj(),
	)...)
	report, err := fit.Run(t.Context(), config(s, w))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, r := range report.Replicas {
		nodes = append(nodes, r.Node)
		for i, kind := range []string{"-file", "-block"} {
			if got := r.Claims[i].Volume; r.Node != "" && got != r.Node+kind {
				t.Errorf("claim %s has volume %s, want %s", r.Claims[i].Name, got, r.Node+kind)
			}
		}
	}
	slices.Sort(nodes[:2])
	if diff := cmp.Diff([]string{"a", "b", ""}, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestClaimsRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":              `"": the size must be a quantity, such as 10Gi or 10Gi:local-disks`,
		"10Gi,":         `"": the size must be a quantity, such as 10Gi or 10Gi:local-disks`,
		"local:10Gi":    `"local:10Gi": the size must be a quantity, such as 10Gi or 10Gi:local-disks`,
		"0:local":       `"0:local": the size must be more than 0`,
		"-1Gi":          `"-1Gi": the size must be more than 0`,
		"1Gi:local:raw": `"1Gi:local:raw": "raw" must be Block, RWO, ROX, RWX or RWOP`,
	} {
		_, err := fit.Claims{Claims: text}.Workload()
		if err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// TestUnseen: the answer is unknown if what it depends on could not be read.
func TestUnseen(t *testing.T) {
	t.Parallel()
	gap := func(k snapshot.Kind) snapshot.Gap { return snapshot.Gap{Resource: k.Resource.GroupResource().String()} }
	for name, test := range map[string]struct {
		gap  snapshot.Gap
		want v1alpha1.FitVerdict
	}{
		"nodes":                        {gap(snapshot.KindOf[*corev1.Node]()), v1alpha1.FitUnknown},
		"pods of other namespaces":     {snapshot.Gap{Resource: "pods", Except: "default"}, v1alpha1.FitUnknown},
		"volumes":                      {gap(snapshot.KindOf[*corev1.PersistentVolume]()), v1alpha1.FitUnknown},
		"claims":                       {gap(snapshot.KindOf[*corev1.PersistentVolumeClaim]()), v1alpha1.FitUnknown},
		"classes":                      {gap(snapshot.KindOf[*storagev1.StorageClass]()), v1alpha1.FitUnknown},
		"capacities, with local disks": {gap(snapshot.KindOf[*storagev1.CSIStorageCapacity]()), v1alpha1.Fits},
	} {
		s := snapshot.Build(cluster(pv("one", "a", "2Gi").Obj())...)
		s.Gaps = []snapshot.Gap{test.gap}
		w, beside := decode(t, set(1, "", ""))
		report, err := fit.Run(t.Context(), config(s, w, beside...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if report.Verdict != test.want || report.Placed != 1 {
			t.Errorf("%s: %s with %d placed, want %s with 1", name, report.Verdict, report.Placed, test.want)
		}
		if seen := len(report.Unseen) == 0; seen != (test.want == v1alpha1.Fits) {
			t.Errorf("%s: unseen is %q", name, report.Unseen)
		}
	}
}
