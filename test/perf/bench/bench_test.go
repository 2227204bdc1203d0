// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil { // manifests are found from the top
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func TestEachKindOfRun(t *testing.T) {
	build := cluster.BuildOptions{Progress: os.Stderr}
	binaries, err := cluster.Build(t.Context(), build)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := cluster.BuildCommand(t.Context(), build, "stowage.dev/stowage/cmd/scheduler")
	if err != nil {
		t.Fatal(err)
	}
	extender, err := cluster.BuildCommand(t.Context(), build, "stowage.dev/stowage/cmd/extender")
	if err != nil {
		t.Fatal(err)
	}
	small := func(w Workload) Workload {
		w.Name, w.Nodes, w.VolumesPerNode, w.Limit = "small", 4, 4, time.Minute
		return w
	}
	controller, err := cluster.BuildCommand(t.Context(), build, "stowage.dev/stowage/cmd/controller")
	if err != nil {
		t.Fatal(err)
	}
	volumes := prepare(t, Config{Workload: small(Workload{}), Binaries: binaries, Progress: t.Logf})
	for name, tc := range map[string]struct {
		workload Workload
		arm      Arm
		pods     int
		// writes of scheduler and PV controller for each pod that are the least there can be.
		writes int
	}{
		"stock, two claims each":             {Workload{ClaimsPerPod: 2}, Stock, 5, 10},
		"direct, two claims each":            {Workload{ClaimsPerPod: 2}, Direct, 5, 10},
		"PVController, one claim":            {Workload{ClaimsPerPod: 1}, PVController, 5, 6},
		"extender, mode Full":                {Workload{ClaimsPerPod: 2}, ExtenderFull, 5, 9},
		"extender, mode Advisory":            {Workload{ClaimsPerPod: 2}, ExtenderAdvisory, 5, 10},
		"bare client, two claims":            {Workload{ClaimsPerPod: 2}, Ceiling, 5, 10},
		"claims that are bound":              {Workload{ClaimsPerPod: 1, claims: boundClaims}, Direct, 5, 1},
		"claims to be provisioned":           {Workload{ClaimsPerPod: 1, claims: claimsToProvision}, Direct, 5, 6},
		"the same without the PV controller": {Workload{ClaimsPerPod: 1, claims: claimsToProvision}, InPlace, 5, 6},
		"claims that fit nowhere":            {Workload{ClaimsPerPod: 1, claims: claimsTooLarge, done: wasRefused}, Direct, 5, 1},
		"StatefulSets":                       {Workload{claims: noClaims, controlled: true, load: rollStatefulSets}, Direct, 10, 2},
	} {
		t.Run(name, func(t *testing.T) {
			config := Config{
				Workload: small(tc.workload), Arm: tc.arm, Round: 3, Pods: tc.pods,
				Binaries: binaries, Scheduler: scheduler, Extender: extender, Controller: controller, Progress: t.Logf,
			}
			if tc.workload.claims == claimsToProvision {
				config.Prepared = prepare(t, config)
			} else {
				config.Prepared = volumes
			}
			run, err := Run(t.Context(), config)
			skipWithoutPolicies(t, err, binaries.Minor)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", run)
			if run.Asked != tc.pods || run.Done != tc.pods || run.GivenTwice != 0 {
				t.Errorf("got %+v, want all %d pods done, and no volume given twice", run, tc.pods)
			}
			if run.Seconds <= 0 || run.P50 <= 0 || run.P99 < run.P50 {
				t.Errorf("took %v s, latency %v to %v s", run.Seconds, run.P50, run.P99)
			}
			// The bind of the pod that came first may be counted late, as one of these.
			if bound := run.Binds["bound"]; tc.arm == ExtenderFull && (bound < tc.pods || bound > tc.pods+1) ||
				tc.arm != ExtenderFull && bound > 0 {
				t.Errorf("the extender's binds are %v", run.Binds)
			}
			if run.Writes < float64(tc.pods*tc.writes) {
				t.Errorf("%v writes, want at least %d a pod", run.Writes, tc.writes)
			}
			if (run.PeakMemory > 0) != (tc.arm != Ceiling) {
				t.Errorf("peak memory of the scheduler is %d bytes in arm %s", run.PeakMemory, tc.arm)
			}
		})
	}
}

// skipWithoutPolicies skips a test that failed because the API server lacks the kind of the extender's policy.
func skipWithoutPolicies(t *testing.T, err error, minor string) {
	t.Helper()
	if minor == "1.35" && apierrors.IsNotFound(err) && strings.Contains(err.Error(), "MutatingAdmissionPolicy") {
		t.Skipf("the extender needs Kubernetes 1.36: %v", err)
	}
}

// TestClaims: all arms bind claims without pods, on a small cluster.
func TestClaims(t *testing.T) {
	build := cluster.BuildOptions{Progress: os.Stderr}
	binaries, err := cluster.Build(t.Context(), build)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := cluster.BuildCommand(t.Context(), build, "stowage.dev/stowage/cmd/controller")
	if err != nil {
		t.Fatal(err)
	}
	w := ClaimWorkloads()[0]
	w.Nodes, w.VolumesPerNode = 2, 4
	config := Config{Workload: w, Binaries: binaries, Controller: controller, Progress: t.Logf, Pods: 5}
	config.Prepared = prepare(t, config)
	for _, share := range w.Arms {
		t.Run(string(share.Arm), func(t *testing.T) {
			config := config
			config.Arm = share.Arm
			line, err := Claims(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(line)
			if got, _ := line.Value("given-twice"); line.Iters != config.Pods || got != 0 {
				t.Errorf("%d claims are bound, %v volumes given twice, want %d and none", line.Iters, got, config.Pods)
			}
			// The API server counts a request after its answer, so that the last one may be missing.
			if writes, _ := line.Value("writes/claim"); writes*float64(config.Pods) < float64(4*config.Pods-1) {
				t.Errorf("%v writes a claim, want 4 at least", writes)
			}
			if _, measured := line.Value("controller-cpu-sec/claim"); measured != (share.Arm == InPlace || share.Arm == BindNow) {
				t.Errorf("CPU time of stowage-controller is measured: %v", measured)
			}
		})
	}
}

// TestFilter: the extender answers all calls as expected, on a small cluster.
func TestFilter(t *testing.T) {
	build := cluster.BuildOptions{Progress: os.Stderr}
	binaries, err := cluster.Build(t.Context(), build)
	if err != nil {
		t.Fatal(err)
	}
	extender, err := cluster.BuildCommand(t.Context(), build, "stowage.dev/stowage/cmd/extender")
	if err != nil {
		t.Fatal(err)
	}
	w := FilterWorkload()
	w.Nodes, w.VolumesPerNode = 60, 2
	config := Config{Workload: w, Binaries: binaries, Extender: extender, Progress: t.Logf}
	config.Prepared = prepare(t, config)
	measured, err := Filter(t.Context(), config, 2)
	skipWithoutPolicies(t, err, binaries.Minor)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(measured)
	if len(measured) != len(filterSeries) {
		t.Errorf("%d series were measured, want %d", len(measured), len(filterSeries))
	}
	for _, line := range measured {
		if v, _ := line.Value("p99-sec"); line.Iters != 2 || v <= 0 {
			t.Errorf("got %+v, want the times of 2 calls", line)
		}
	}
}

func prepare(t *testing.T, c Config) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "etcd")
	if err := Prepare(t.Context(), c, folder); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestCutOff(t *testing.T) {
	s := &setup{recorder: newRecorder()}
	s.recorder.create("a", time.Now())
	s.recorder.see("a", true)
	run := s.outcome(2, 10*time.Second, true)
	if run.Asked != 2 || run.Done != 1 || run.Throughput() != 0.1 {
		t.Errorf("got %+v, want 1 of 2 pods done in all of 10 s", run)
	}
}

func TestRecorder(t *testing.T) {
	r := newRecorder()
	begin := time.Now()
	r.see("warm", true)
	r.forget()
	r.see("warm", true)
	r.see("a", false)
	r.create("b", begin.Add(-time.Minute)) // the answer came after the watch had shown it
	r.see("b", true)
	r.see("b", true)
	if got := r.count(); got != 1 {
		t.Errorf("%d pods are done, want 1: b, and not the one from before", got)
	}
	if got := r.latencies(); len(got) != 1 || got[0] < 60 {
		t.Errorf("latencies are %v, want that of b, over a minute", got)
	}
	if first := r.first(); first < 60 {
		t.Errorf("the first pod was done after %v s, want over a minute", first)
	}
	if first, last := r.span(); !first.Equal(begin.Add(-time.Minute)) || last.Before(begin) {
		t.Errorf("the span is %v to %v", first, last)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.await(ended, 2); err == nil {
		t.Error("2 pods were waited for, but 1 is done")
	}
	if err := r.await(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

func TestGivenTwice(t *testing.T) {
	claim := func(name, volume string) v1.PersistentVolumeClaim {
		return *builders.MakePVC(name).UID(name).Bound(volume).Obj()
	}
	volume := func(name, owner string) v1.PersistentVolume {
		return *builders.MakePV(name).ClaimRef(namespace, owner, owner).Obj()
	}
	for name, tc := range map[string]struct {
		claims  []v1.PersistentVolumeClaim
		volumes []v1.PersistentVolume
		want    int
	}{
		"each its own":               {[]v1.PersistentVolumeClaim{claim("a", "x"), claim("b", "y")}, []v1.PersistentVolume{volume("x", "a"), volume("y", "b")}, 0},
		"both the same":              {[]v1.PersistentVolumeClaim{claim("a", "x"), claim("b", "x")}, []v1.PersistentVolume{volume("x", "a")}, 2},
		"a volume of another claim":  {[]v1.PersistentVolumeClaim{claim("a", "x")}, []v1.PersistentVolume{volume("x", "b")}, 1},
		"a volume that is not there": {[]v1.PersistentVolumeClaim{claim("a", "x")}, nil, 1},
		"not bound yet":              {[]v1.PersistentVolumeClaim{*builders.MakePVC("a").Obj()}, []v1.PersistentVolume{volume("x", "b")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(cluster.Misbound(tc.claims, tc.volumes)); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestSchedulingWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		verb, resource, subresource string
		want                        bool
	}{
		"binding":                 {"POST", "pods", "binding", true},
		"nominated node":          {"PATCH", "pods", "status", true},
		"claim":                   {"PUT", "persistentvolumeclaims", "", true},
		"status of a volume":      {"PUT", "persistentvolumes", "status", true},
		"new pod":                 {"POST", "pods", "", false},
		"new volume":              {"POST", "persistentvolumes", "", false},
		"event":                   {"POST", "events", "", false},
		"read":                    {"GET", "persistentvolumes", "", false},
		"a lease":                 {"PUT", "leases", "", false},
		"StatefulSet's own state": {"PUT", "statefulsets", "status", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := isSchedulingWrite(map[string]string{"verb": tc.verb, "resource": tc.resource, "subresource": tc.subresource})
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestWorkloads: names are unique and requests satisfiable.
func TestWorkloads(t *testing.T) {
	names := sets.Set[string]{}
	for _, w := range Workloads() {
		if names.Has(w.Name) || w.Name == "" || w.Title == "" {
			t.Errorf("workload %q: the name is taken, or name or title is missing", w.Name)
		}
		names.Insert(w.Name)
		if w.Nodes <= 0 || w.Limit <= 0 || len(w.Arms) < 2 {
			t.Errorf("workload %s: %d nodes, limit %v, %d arms", w.Name, w.Nodes, w.Limit, len(w.Arms))
		}
		for _, share := range w.Arms {
			perNode := w.VolumesPerNode
			if w.ClaimsPerPod > 0 {
				perNode /= w.ClaimsPerPod // pods that a node's volumes are enough for
			}
			static := w.claims == unboundClaims || w.claims == boundClaims
			if share.Pods < 1 || static && share.Pods+warmUp > perNode*w.Nodes {
				t.Errorf("workload %s: %d pods of arm %s, but volumes for %d", w.Name, share.Pods, share.Arm, perNode*w.Nodes)
			}
		}
	}
}

func TestProfiles(t *testing.T) {
	configs := sets.Set[string]{}
	for _, arm := range []Arm{Stock, Direct, PVController} {
		config, err := schedulerConfig(arm, clientQPS)
		if err != nil {
			t.Fatal(err)
		}
		configs.Insert(string(config))
	}
	if len(configs) != 3 {
		t.Errorf("three arms have %d different configurations", len(configs))
	}
	if _, err := schedulerConfig(Ceiling, 0); err == nil {
		t.Error("the bare client has a scheduler's configuration")
	}
}

// TestCeilingPlaces: no volume is chosen for two claims, and all are on the
// pod's node.
func TestCeilingPlaces(t *testing.T) {
	w := Workload{Nodes: 3, VolumesPerNode: 4, ClaimsPerPod: 2}
	s := &setup{workload: w}
	taken := map[int]string{}
	for pod := range 6 {
		for claim := range w.ClaimsPerPod {
			v := s.volumeFor(pod, claim)
			if who, twice := taken[v]; twice {
				t.Errorf("volume %d is chosen for %s and for claim %d of pod %d", v, who, claim, pod)
			}
			taken[v] = fmt.Sprintf("claim %d of pod %d", claim, pod)
			if v%w.Nodes != pod%w.Nodes || v >= w.Nodes*w.VolumesPerNode {
				t.Errorf("volume %d is chosen for pod %d, whose node has others", v, pod)
			}
		}
	}
}

// TestLine: what was not measured is left out, and nothing else.
func TestLine(t *testing.T) {
	r := Result{Asked: 100, Done: 50, Seconds: 10, P50: 1, P99: 2, usage: usage{SchedulerCPU: 5, Writes: 300, Binds: map[string]int{"bound": 50, "conflict": 2}}}
	got := figures.Set{r.Line(Workload{Name: "static-1"}, ExtenderFull)}.String()
	want := "BenchmarkCluster/workload=static-1/arm=extender-Full 50 5 pods/s 100 asked 10 sec 1 p50-sec 2 p99-sec 0.1 cpu-sec/pod " +
		"6 writes/pod 0 409s/pod 0 given-twice 52 binds 2 bind-conflicts 0 bind-errors\n"
	if got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}
