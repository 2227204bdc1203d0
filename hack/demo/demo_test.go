// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// loadAll reads every file of manifests.
func loadAll(t *testing.T) (s state) {
	t.Helper()
	s = state{map[string]*v1.Node{}, map[string]*v1.Pod{}, map[string]*v1.PersistentVolumeClaim{}, map[string]*v1.PersistentVolume{}}
	files, err := filepath.Glob("manifests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			object, _, err := strict.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch typed := object.(type) {
			case *v1.Node:
				s.nodes[typed.Name] = typed
			case *v1.Pod:
				s.pods[typed.Name] = typed
			case *v1.PersistentVolumeClaim:
				s.claims[typed.Name] = typed
			case *v1.PersistentVolume:
				s.volumes[typed.Name] = typed
			case *appsv1.StatefulSet:
				s.addReplicas(typed)
			}
		}
	}
	return s
}

// addReplicas does what the StatefulSet controller would.
func (s state) addReplicas(set *appsv1.StatefulSet) {
	for i := range *set.Spec.Replicas {
		name := fmt.Sprintf("%s-%d", set.Name, i)
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *set.Spec.Template.Spec.DeepCopy()}
		s.pods[name] = pod
		for _, template := range set.Spec.VolumeClaimTemplates {
			claim := template.DeepCopy()
			claim.Name += "-" + name
			s.claims[claim.Name] = claim
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: template.Name, VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
			}})
		}
	}
}

// good is a state in which everything is as wanted.
func good(t *testing.T) state {
	s := loadAll(t)
	for name, want := range wanted {
		claim := s.claims[name]
		if claim == nil {
			t.Fatalf("no manifest has claim %s", name)
		}
		if want.volume == "" {
			continue
		}
		claim.UID = types.UID("uid-of-" + name)
		volume := want.volume
		if volume == published {
			volume = "local-pv-of-" + name
			s.volumes[volume] = publishedOn(want.nodes[0], volume, claim)
		}
		claim.Spec.VolumeName, claim.Status.Phase = volume, v1.ClaimBound
		pod := s.pods[want.pod]
		pod.Spec.NodeName, pod.Status.Phase = want.nodes[0], v1.PodRunning
		pv := s.volumes[volume]
		if pv == nil { // provisioned
			pv = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}}
			pv.Spec.Capacity = claim.Spec.Resources.Requests
			s.volumes[volume] = pv
		}
		pv.Spec.ClaimRef = &v1.ObjectReference{Name: name, UID: claim.UID}
		pv.Status.Phase = v1.VolumeBound
	}
	return s
}

// publishedOn is a volume that the provisioner of a node has published.
func publishedOn(node, name string, claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-" + name),
			Labels: map[string]string{wellknown.NodeLabel: localpv.NodeHash(node)},
			Annotations: map[string]string{
				wellknown.NodeNameAnnotation: node, localpv.ProvisionedByAnnotation: localpv.ProvisionedBy(node),
			},
		},
		Spec: v1.PersistentVolumeSpec{
			Capacity:               claim.Spec.Resources.Requests,
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt/" + name}},
		},
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(s state)
		want   string // part of the error; empty: none
	}{
		"all as wanted": {change: func(state) {}},
		"one volume for two claims": {
			change: func(s state) { s.claims["history"].Spec.VolumeName = "a-10gi" },
			want:   "volume a-10gi is bound twice: to claims data-db-0 and history",
		},
		"another volume": {
			change: func(s state) { s.claims["photos"].Spec.VolumeName = "d-8gi" },
			want:   `claim photos of pod album: has volume "d-8gi", want "c-20gi-kept"`,
		},
		"another node": {
			change: func(s state) { s.pods["inbox"].Spec.NodeName = "node-a" },
			want:   `claim uploads of pod inbox: the pod is on "node-a", want ["node-c" "node-d"]`,
		},
		"a pod placed that must wait": {
			change: func(s state) { s.pods["archive"].Spec.NodeName = "node-a" },
			want:   `claim history of pod archive: the pod is on "node-a", want []`,
		},
		"a pod that does not run": {
			change: func(s state) { s.pods["ledger"].Status.Phase = v1.PodPending },
			want:   "claim index of pod ledger: the pod is Pending, want Running",
		},
		"a volume that its node cannot reach": {
			change: func(s state) { s.nodes["node-b"].Labels[v1.LabelHostname] = "other" },
			want:   "claim index of pod ledger: volume b-2gi-gold cannot be used on node-b",
		},
		"a volume that refers to an earlier claim": {
			change: func(s state) { s.volumes["b-5gi"].Spec.ClaimRef.UID = "old" },
			want:   "claim journal of pod ledger: volume b-5gi does not refer to it",
		},
		"a volume with a claimRef that is not bound": {
			change: func(s state) { s.volumes["d-8gi"].Spec.ClaimRef = &v1.ObjectReference{Name: "history"} },
			want:   "volume d-8gi has a claimRef to claim history, which has another volume",
		},
		"no volume of a provisioner": {
			change: func(s state) { s.claims["log-shop-1"].Spec.VolumeName = "" },
			want:   "claim log-shop-1 of pod shop-1: has no volume",
		},
		"the volume of another node's provisioner": {
			change: func(s state) {
				s.volumes["local-pv-of-data-shop-2"].Annotations[wellknown.NodeNameAnnotation] = "node-d"
			},
			want: "claim data-shop-2 of pod shop-2: volume local-pv-of-data-shop-2 was not published by the provisioner of node-a",
		},
		"a claim missing": {
			change: func(s state) { delete(s.claims, "log-db-2") },
			want:   "claim log-db-2 does not exist",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good(t)
			test.change(s)
			switch err := s.check(); {
			case err == nil && test.want != "":
				t.Errorf("check finds nothing, want %q", test.want)
			case err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)):
				t.Errorf("check finds %q, want %q", err, test.want)
			}
		})
	}
}

func TestTotals(t *testing.T) {
	t.Parallel()
	want := "9 pods run, 1 waits. 16 claims are bound, no volume is bound twice."
	if diff := cmp.Diff(want, good(t).totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// TestPrograms: without what make demo builds beside it, the demo does not start.
func TestPrograms(t *testing.T) {
	t.Parallel()
	if _, err := findPrograms(); err == nil || !strings.HasPrefix(err.Error(), "run make demo") {
		t.Errorf("error %v, want one that names make demo", err)
	}
}
