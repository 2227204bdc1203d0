// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect_test tries the kubectl plugin on an API server. It compares kubectl stowage fit with what happens:
// it simulates StatefulSets on a snapshot, then creates them.
package inspect_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/fit"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/inspect/why"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m)) }

// site is a random cluster and a StatefulSet for it.
type site struct {
	*fixture.Env
	set *appsv1.StatefulSet
}

// newSite creates six nodes with zero to four volumes of each of two classes.
func newSite(e *fixture.Env, random *rand.Rand) *site {
	e.T.Helper()
	e.CreateClass(e.Class("log"))
	var nodes []*builders.Node
	var volumes []*builders.PV
	for n := range 6 {
		name := fmt.Sprintf("node-%d", n)
		nodes = append(nodes, e.Node(name))
		for i := range random.IntN(5) {
			volumes = append(volumes, e.LocalPV(fmt.Sprintf("data-%d-%d", n, i), name).Capacity(fmt.Sprintf("%dGi", 1+random.IntN(8))))
		}
		for i := range random.IntN(5) {
			volumes = append(volumes, e.LocalPV(fmt.Sprintf("log-%d-%d", n, i), name).Class(e.Name("log")).Capacity(fmt.Sprintf("%dGi", 1+random.IntN(3))))
		}
	}
	e.AddNodes(nodes...)
	e.CreatePVs(volumes...)

	labels := map[string]string{"app": "db"}
	s := &site{Env: e, set: &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: e.Namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32), ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: e.Pod("template").Obj().Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*e.PVC("data").Request(fmt.Sprintf("%dGi", 1+random.IntN(6))).Obj()},
		},
	}}
	for i := range random.IntN(3) {
		claim := e.PVC(fmt.Sprintf("log-%d", i)).Class(e.Name("log")).Request(fmt.Sprintf("%dGi", 1+random.IntN(2))).Obj()
		s.set.Spec.VolumeClaimTemplates = append(s.set.Spec.VolumeClaimTemplates, *claim)
	}
	if random.IntN(2) == 0 {
		s.set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	if random.IntN(3) == 0 {
		s.set.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
			}},
		}}
	}
	return s
}

// simulate returns what fit reports about the StatefulSet, with the rights of config.
func (s *site) simulate(config *rest.Config, most bool) *v1alpha1.Fit {
	s.T.Helper()
	manifest, err := yaml.Marshal(s.set)
	if err != nil {
		s.T.Fatal(err)
	}
	w, beside, err := fit.Decode(bytes.NewReader(manifest), s.Namespace, true)
	if err != nil {
		s.T.Fatal(err)
	}
	if most {
		w.Replicas = fit.Most
	}
	return fixture.Get(s.Env, func(ctx context.Context) (*v1alpha1.Fit, error) {
		var queries []snapshot.Query
		for _, kind := range snapshot.Scheduling() {
			queries = append(queries, snapshot.Query{Kind: kind})
		}
		read, err := (&snapshot.Reader{Config: config, Namespace: s.Namespace}).Read(ctx, queries...)
		if err != nil {
			return nil, err
		}
		profile := schedulerconfig.Default().Profiles[0]
		profile.SchedulerName = w.Template.Spec.SchedulerName
		return fit.Run(ctx, fit.Config{
			Workload: w, Beside: beside, Max: most,
			Simulate: simulate.Config{Snapshot: read, Profile: profile, Plugins: frameworkruntime.Registry{volumetopology.Name: volumetopology.New}},
			Explain: func(ctx context.Context, pod *corev1.Pod, after *snapshot.Snapshot, simulator *simulate.Simulator) (*v1alpha1.PodReport, error) {
				return why.Pod(ctx, why.PodQuestion{Snapshot: after, Pod: pod, Simulator: simulator})
			},
		})
	})
}

// outcome is where pods are. Pods are equal, so which of them has which node and volume may differ; of each node it
// is determined how many it takes and with which volumes, once no more fit.
type outcome struct {
	Nodes   map[string]int
	Volumes []string
}

// create creates the StatefulSet, and waits until a pod of it is refused, or all are placed and bound.
func (s *site) create() outcome {
	s.T.Helper()
	replicas := int(*s.set.Spec.Replicas)
	fixture.Get(s.Env, func(ctx context.Context) (*appsv1.StatefulSet, error) {
		return s.Client.AppsV1().StatefulSets(s.Namespace).Create(ctx, s.set, metav1.CreateOptions{})
	})
	wanted := replicas
	if s.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		wanted = 1 // a pod that is refused ends it
	}
	s.Wait("all pods to be placed or refused", func() bool {
		placed, refused := 0, 0
		for i := range replicas {
			pod := s.SeenPod(fmt.Sprintf("db-%d", i))
			switch {
			case pod == nil:
			case finally(fixture.Refusal(pod)):
				refused++
			case pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning:
				placed++
			}
		}
		return placed == replicas || refused > 0 && placed+refused >= wanted
	})
	o := outcome{Nodes: map[string]int{}}
	for pod, node := range s.Placement() {
		if pod != warm {
			o.Nodes[node]++
		}
	}
	for _, volume := range s.Bindings() {
		o.Volumes = append(o.Volumes, volume)
	}
	slices.Sort(o.Volumes)
	s.NoVolumeTwice()
	return o
}

// finally reports whether a refusal is for good: not that the scheduler has not seen a claim of the new pod yet.
func finally(refusal string) bool { return refusal != "" && !strings.Contains(refusal, "not found") }

// outcomeOf is the outcome that a report expects.
func (s *site) outcomeOf(report *v1alpha1.Fit) outcome {
	o := outcome{Nodes: map[string]int{}}
	for _, r := range report.Replicas {
		if r.Node == "" {
			continue
		}
		o.Nodes[s.short(r.Node)]++
		for _, c := range r.Claims {
			o.Volumes = append(o.Volumes, s.short(c.Volume))
		}
	}
	slices.Sort(o.Volumes)
	return o
}

func (s *site) short(name string) string { return name[len(s.Namespace)+1:] }

// warm is the name of a pod whose creation waits until the scheduler has seen the nodes and the volumes.
const warm = "warm"

// TestFit: as many replicas as fit says are placed, and one more is refused. With that one, which nodes and volumes
// are used does not depend on the order, so they are the same ones.
func TestFit(t *testing.T) {
	t.Parallel()
	seed := campaign.Begin(t)
	for n := range campaign.Scale[uint64](8, 60) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			e.Shared()
			s := newSite(e, rand.New(rand.NewPCG(seed, n)))
			e.WaitScheduled(e.CreatePod(e.Pod(warm)))

			most := s.simulate(e.Cluster.RESTConfig(), true)
			if most.Verdict == v1alpha1.FitUnknown || most.Missing == nil {
				t.Fatalf("verdict %s because of %q, missing %v", most.Verdict, most.Unknown, most.Missing)
			}
			*s.set.Spec.Replicas = int32(most.Placed) + 1
			report := s.simulate(e.Cluster.RESTConfig(), false)
			want := s.outcomeOf(report)
			if report.Verdict != v1alpha1.DoesNotFit || report.Placed != most.Placed {
				t.Errorf("%s with %d placed, want %s with %d", report.Verdict, report.Placed, v1alpha1.DoesNotFit, most.Placed)
			}
			if diff := cmp.Diff(want, s.create()); diff != "" {
				t.Errorf("of %d replicas (-fit +scheduler):\n%s\n%s", *s.set.Spec.Replicas, diff, e.Dump())
			}
		})
	}
}

// TestFitWithoutRights: what a user may not read, does not fit.
func TestFitWithoutRights(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	s := newSite(e, rand.New(rand.NewPCG(1, 19)))
	*s.set.Spec.Replicas = 1
	config, err := e.Cluster.RESTConfigFor("stranger")
	if err != nil {
		t.Fatal(err)
	}
	report := s.simulate(config, false)
	if report.Verdict != v1alpha1.FitUnknown || len(report.Unseen) == 0 {
		t.Errorf("%s, unseen %q, want %s", report.Verdict, report.Unseen, v1alpha1.FitUnknown)
	}
}
