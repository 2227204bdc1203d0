// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/fit"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
	"stowage.dev/stowage/pkg/testing/builders"
)

// config returns the configuration of stowage-scheduler's default profile.
func config(s *snapshot.Snapshot, w *fit.Workload, beside ...snapshot.Object) fit.Config {
	return fit.Config{
		Workload: w, Beside: beside,
		Simulate: simulate.Config{
			Snapshot: s, Profile: schedulerconfig.Default().Profiles[0],
			Plugins: frameworkruntime.Registry{volumetopology.Name: volumetopology.New},
		},
		Explain: func(_ context.Context, pod *corev1.Pod, _ *snapshot.Snapshot, _ *simulate.Simulator) (*v1alpha1.PodReport, error) {
			return &v1alpha1.PodReport{Name: pod.Name}, nil
		},
	}
}

// decode reads a manifest.
func decode(t *testing.T, text string) (*fit.Workload, []snapshot.Object) {
	t.Helper()
	w, beside, err := fit.Decode(strings.NewReader(text), metav1.NamespaceDefault, false)
	if err != nil {
		t.Fatal(err)
	}
	return w, beside
}

// set is a StatefulSet with a claim for 2Gi of each replica. head is added to its spec, pod to that of its pods.
func set(replicas int, head, pod string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: %d
  selector: {matchLabels: {app: db}}
  %s
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: db}]
      %s
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 2Gi}}}
`, replicas, head, pod)
}

// deployment uses the claim shared; beside it, the claim.
const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: shared}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}
`

const ephemeral = `
apiVersion: v1
kind: Pod
metadata: {name: scratch}
spec:
  containers: [{name: c, image: c}]
  volumes:
  - name: tmp
    ephemeral:
      volumeClaimTemplate:
        spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 2Gi}}}
`

func pv(name, node, size string) *builders.PV {
	return builders.MakePV(name).UID(name).Class("local").Capacity(size).Hostname(node)
}

// cluster has the nodes a and b and the class local, which is the default.
func cluster(objects ...snapshot.Object) []snapshot.Object {
	class := builders.MakeClass("local").Annotation("storageclass.kubernetes.io/is-default-class", "true")
	return append(objects, builders.MakeNode("a").UID("a").Obj(), builders.MakeNode("b").UID("b").Obj(), class.Obj(),
		builders.MakeClass("immediate").Immediate().Obj())
}

// ownedBy makes a StatefulSet the controller of the pod.
func ownedBy(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name, Controller: new(true)}}
	}
}

// lines returns what was placed, a replica a line.
func lines(report *v1alpha1.Fit) []string {
	var all []string
	for _, r := range report.Replicas {
		line := r.Name + " on " + r.Node
		if r.Running {
			line += " already"
		}
		for _, c := range r.Claims {
			line += fmt.Sprintf(", %s: %s", c.Name, c.Volume)
			if c.Bound {
				line += " bound"
			}
			if c.Provisioned {
				line += "provisioned"
			}
		}
		all = append(all, line)
	}
	return all
}

func TestRun(t *testing.T) {
	t.Parallel()
	bound := func(claim, volume string) snapshot.Object {
		return builders.MakePVC(claim).UID(claim).Class("local").Request("2Gi").Bound(volume).Obj()
	}
	for name, test := range map[string]struct {
		objects  []snapshot.Object
		manifest string
		change   func(*fit.Config)
		verdict  v1alpha1.FitVerdict
		want     []string
		missing  string
	}{
		"each replica has its own volume": {
			objects:  cluster(pv("small", "a", "1Gi").Obj(), pv("one", "a", "2Gi").Obj(), pv("two", "a", "3Gi").Obj()),
			manifest: set(2, "", ""), verdict: v1alpha1.Fits,
			want: []string{"db-0 on a, data-db-0: one", "db-1 on a, data-db-1: two"},
		},
		"replicas are created in order: the others wait for the one that does not fit": {
			objects:  cluster(pv("one", "a", "2Gi").Obj(), pv("old", "b", "2Gi").ClaimRef("default", "data-db-2", "data-db-2").Phase(corev1.VolumeBound).Obj(), bound("data-db-2", "old")),
			manifest: set(3, "", ""), verdict: v1alpha1.DoesNotFit, missing: "db-1",
			want: []string{"db-0 on a, data-db-0: one", "db-1 on , data-db-1: ", "db-2 on , data-db-2: old bound"},
		},
		"replicas are created at once: those with claims of their own are placed": {
			objects:  cluster(pv("one", "a", "2Gi").Obj(), pv("old", "b", "2Gi").ClaimRef("default", "data-db-2", "data-db-2").Phase(corev1.VolumeBound).Obj(), bound("data-db-2", "old")),
			manifest: set(3, "podManagementPolicy: Parallel", ""), verdict: v1alpha1.DoesNotFit, missing: "db-1",
			want: []string{"db-0 on a, data-db-0: one", "db-1 on , data-db-1: ", "db-2 on b, data-db-2: old bound"},
		},
		"ordinals begin at another number": {
			objects:  cluster(pv("one", "a", "2Gi").Obj()),
			manifest: set(1, "ordinals: {start: 5}", ""), verdict: v1alpha1.Fits,
			want: []string{"db-5 on a, data-db-5: one"},
		},
		"pods that run count as placed": {
			objects: cluster(pv("one", "a", "2Gi").Obj(), pv("old", "b", "2Gi").ClaimRef("default", "data-db-0", "data-db-0").Phase(corev1.VolumeBound).Obj(), bound("data-db-0", "old"),
				builders.MakePod("db-0").UID("db-0").Node("b").PVC("data-db-0").Change(ownedBy("db")).Obj()),
			manifest: set(2, "", ""), verdict: v1alpha1.Fits,
			want: []string{"db-0 on b already, data-db-0: old bound", "db-1 on a, data-db-1: one"},
		},
		"anti-affinity counts the pods that were placed": {
			objects:  cluster(pv("one", "a", "2Gi").Obj(), pv("two", "a", "3Gi").Obj()),
			manifest: set(2, "", `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}`),
			verdict:  v1alpha1.DoesNotFit, missing: "db-1",
			want: []string{"db-0 on a, data-db-0: one", "db-1 on , data-db-1: "},
		},
		"resources count": {
			objects:  cluster(pv("one", "a", "2Gi").Obj(), pv("two", "a", "3Gi").Obj()),
			manifest: strings.Replace(set(2, "", ""), "image: db}", "image: db, resources: {limits: {cpu: 20}}}", 1),
			verdict:  v1alpha1.DoesNotFit, missing: "db-1",
			want: []string{"db-0 on a, data-db-0: one", "db-1 on , data-db-1: "},
		},
		"pods of a Deployment share a claim of the default class": {
			objects: cluster(pv("one", "b", "2Gi").Obj(), pv("two", "a", "3Gi").Obj()), manifest: deployment, verdict: v1alpha1.Fits,
			want: []string{"web-0 on b, shared: one", "web-1 on b, shared: one", "web-2 on b, shared: one"},
			// The smaller volume.
			change: func(c *fit.Config) {
				c.Workload.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"}
			},
		},
		"a generic ephemeral volume has a claim of the pod": {
			objects: cluster(pv("one", "a", "2Gi").Obj()), manifest: ephemeral, verdict: v1alpha1.Fits,
			want: []string{"scratch on a, scratch-tmp: one"},
		},
		"as many as fit": {
			objects:  cluster(pv("one", "a", "2Gi").Obj(), pv("two", "a", "3Gi").Obj()),
			manifest: set(1, "", ""), verdict: v1alpha1.Fits, missing: "db-2",
			change: func(c *fit.Config) { c.Max, c.Workload.Replicas = true, fit.Most },
			want:   []string{"db-0 on a, data-db-0: one", "db-1 on a, data-db-1: two"},
		},
		"a volume is provisioned within the capacity": {
			objects: cluster(builders.MakeClass("made").Provisioner("csi.example").Obj(), builders.MakeCSIDriver("csi.example").StorageCapacity(true).Obj(),
				builders.MakeCapacity("a", "made").Capacity("3Gi").Hostname("a").Obj()),
			manifest: strings.Replace(set(2, "", ""), "storageClassName: local", "storageClassName: made", 1), verdict: v1alpha1.DoesNotFit, missing: "db-1",
			want: []string{"db-0 on a, data-db-0: provisioned", "db-1 on , data-db-1: "},
		},
		"the PV controller binds the claims of a class that is immediate": {
			objects: cluster(pv("one", "a", "2Gi").Obj()), verdict: v1alpha1.FitUnknown,
			manifest: strings.Replace(set(2, "", ""), "storageClassName: local", "storageClassName: immediate", 1),
		},
		"an extender is not called": {
			objects: cluster(pv("one", "a", "2Gi").Obj()), manifest: set(1, "", ""), verdict: v1alpha1.FitUnknown,
			change: func(c *fit.Config) { c.Extenders = []string{"http://extender"} },
			want:   []string{"db-0 on a, data-db-0: one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, beside := decode(t, test.manifest)
			c := config(snapshot.Build(test.objects...), w, beside...)
			if test.change != nil {
				test.change(&c)
			}
			report, err := fit.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, lines(report)); diff != "" {
				t.Errorf("replicas (-want +got):\n%s", diff)
			}
			missing := ""
			if report.Missing != nil {
				missing = report.Missing.Name
			}
			if report.Verdict != test.verdict || missing != test.missing {
				t.Errorf("verdict %s, missing %q, want %s and %q; unknown: %q", report.Verdict, missing, test.verdict, test.missing, report.Unknown)
			}
		})
	}
}

// TestMissingIsExplainedAfterTheOthers: the snapshot that explains has what is reserved for the replicas before.
func TestMissingIsExplainedAfterTheOthers(t *testing.T) {
	t.Parallel()
	w, beside := decode(t, set(2, "", ""))
	c := config(snapshot.Build(cluster(pv("one", "a", "2Gi").Obj(), pv("small", "a", "1Gi").Obj())...), w, beside...)
	free := map[string]bool{}
	var pods []string
	c.Explain = func(_ context.Context, pod *corev1.Pod, s *snapshot.Snapshot, _ *simulate.Simulator) (*v1alpha1.PodReport, error) {
		for _, volume := range snapshot.Of[*corev1.PersistentVolume](s) {
			free[volume.Name] = match.Free(volume)
		}
		for _, placed := range snapshot.Of[*corev1.Pod](s) {
			pods = append(pods, placed.Name+" on "+placed.Spec.NodeName)
		}
		return &v1alpha1.PodReport{Name: pod.Name}, nil
	}
	if _, err := fit.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"one": false, "small": true}, free); diff != "" {
		t.Errorf("free volumes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"db-0 on a"}, pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

// TestLeft: storage of nodes that the pods cannot use does not count.
func TestLeft(t *testing.T) {
	t.Parallel()
	const gi = 1 << 30
	w, beside := decode(t, set(1, "", "nodeSelector: {kubernetes.io/hostname: a}"))
	s := snapshot.Build(cluster(pv("one", "a", "2Gi").Obj(), pv("two", "a", "3Gi").Obj(), pv("three", "a", "1Gi").Obj(), pv("other", "b", "9Gi").Obj())...)
	report, err := fit.Run(t.Context(), config(s, w, beside...))
	if err != nil {
		t.Fatal(err)
	}
	want := []v1alpha1.FitLeft{{Class: "local", Volumes: 2, Bytes: 4 * gi, LargestBytes: 3 * gi}}
	if diff := cmp.Diff(want, report.Left); diff != "" {
		t.Errorf("storage that is left (-want +got):\n%s", diff)
	}
	if report.EligibleNodes != 1 {
		t.Errorf("%d nodes are eligible, want 1", report.EligibleNodes)
	}
}
