// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/loop"
)

// lostClaim returns a controller, and a volume of a lost node with its claim.
func lostClaim() (*Controller, *volumeFacts, *fake.Clientset) {
	volume := ownedVolume("pv", "a", "wwn:1")
	volume.UID = "volume"
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data-db-0", UID: "claim"}
	volume.Spec.StorageClassName = "fast"
	claim := claimOf("data-db-0")
	claim.Namespace, claim.UID = "default", "claim"
	set := setOf(nil)[0]
	set.Namespace = "default"
	client := fake.NewClientset(volume, claim, set, classOf(rules.Release))
	c := &Controller{Config: Config{Client: client, Events: events.NewFakeRecorder(10)}, released: map[string]time.Time{}, lastEvents: map[string]string{}, states: map[string]lossState{}}
	f := &volumeFacts{volume: volume, node: "a", claim: claim, Facts: rules.Facts{
		Now: time.Now(), Node: rules.Gone, Volume: disk.Volume{Phase: disk.PhaseBound, Policy: disk.Delete, Claimed: true, ClaimUID: "claim"},
		Mark: &rules.Mark{Cause: rules.NodeGone, Since: time.Now().Add(-time.Hour)}, Terms: rules.Terms{Release: true},
		Claim: &rules.Claim{UID: "claim", Bound: true, Recreator: &rules.Recreator{Name: "db", UID: "set"}},
	}}
	return c, f, client
}

// classOf is a class with a policy.
func classOf(policy string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{wellknown.NodeLossAnnotation: policy}}}
}

var toBegin = rules.Decision{Do: rules.BeginRelease, Cause: rules.NodeGone}

// writes returns verbs and kinds of the writes.
func writes(client *fake.Clientset) (written []string) {
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" {
			written = append(written, verb+" "+action.GetResource().Resource)
		}
	}
	return written
}

// TestReleaseContinues: the claim is deleted right after its release was written, before other
// volumes are reconciled.
func TestReleaseContinues(t *testing.T) {
	t.Parallel()
	c, f, client := lostClaim()
	if err := c.apply(t.Context(), f, toBegin); err != nil {
		t.Fatal(err)
	}
	if got, want := writes(client), []string{"patch persistentvolumes", "delete persistentvolumeclaims"}; !slices.Equal(got, want) {
		t.Errorf("wrote %q, want %q", got, want)
	}
	if c.released["volume"] != f.Now {
		t.Error("the release does not count")
	}
}

// TestReleaseRejected: a claim whose deletion is rejected does not use up the budget, and is
// retried.
func TestReleaseRejected(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "data", errors.New("a webhook says no"))
	for name, tc := range map[string]struct {
		err     error
		counted bool
	}{
		"by an admission webhook":       {forbidden, false},
		"its state is unknown":          {errors.New("connection lost"), true},
		"the API server does not know":  {apierrors.NewInternalError(errors.New("etcd")), true},
		"it has changed, for the while": {apierrors.NewConflict(corev1.Resource("persistentvolumeclaims"), "data", errors.New("version")), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, f, client := lostClaim()
			client.PrependReactor("delete", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			if err := c.apply(t.Context(), f, toBegin); err == nil {
				t.Fatal("no error")
			}
			volume, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "pv", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if written := volume.Annotations[wellknown.ReleaseAnnotation] != ""; written != tc.counted || (len(c.released) > 0) != tc.counted {
				t.Errorf("written down: %t, remembered: %v; want both %t", written, c.released, tc.counted)
			}
		})
	}
}

// TestReleaseTooLate: a claim is deleted only within the leeway of its release.
func TestReleaseTooLate(t *testing.T) {
	t.Parallel()
	c, f, client := lostClaim()
	f.Release = &rules.BegunRelease{ClaimUID: "claim", At: time.Now().Add(-rules.Leeway - time.Second)}
	if err := c.apply(t.Context(), f, rules.Decision{Do: rules.DeleteClaim, Cause: rules.NodeGone}); !errors.Is(err, loop.ErrStale) || len(writes(client)) > 0 {
		t.Errorf("error %v, wrote %q; want it to be decided about again", err, writes(client))
	}
}
