// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

func claim(name string) *builders.PVC {
	return builders.MakePVC(name).UID("uid-" + name).Class("local")
}

func volume(name string) *builders.PV {
	return builders.MakePV(name).UID("uid-" + name).Class("local").Hostname("n1")
}

// failure is the code of a *plan.Failure, "" for nil, and the text of others.
func failure(err error) plan.FailureCode {
	var f *plan.Failure
	switch {
	case err == nil:
		return ""
	case errors.As(err, &f):
		return f.Code
	default:
		return plan.FailureCode(err.Error())
	}
}

// state describes a claim and a volume, for comparison.
func (c *cluster) state(claimName, volumeName string) string {
	claim, volume := c.Claim("default", claimName), c.Volume(volumeName)
	of := "free"
	if ref := volume.Spec.ClaimRef; ref != nil {
		of = ref.Name + ":" + string(ref.UID)
	}
	return strings.Join([]string{claim.Spec.VolumeName, string(claim.Status.Phase), of, string(volume.Status.Phase)}, " ")
}

const bound = "pv-a Bound a:uid-a Bound"

func TestDirectBindsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, bindsEverything)
}

func bindsEverything(t *testing.T) {
	c := newCluster(t, claim("a"), claim("b"), claim("c"), volume("pv-a"), volume("pv-b"), volume("pv-c"))
	if err := c.binder(binder.Direct).Bind(t.Context(), c.plan("a=pv-a", "b=pv-b", "c=pv-c")); err != nil {
		t.Fatal(err)
	}
	if len(c.log()) != 9 {
		t.Errorf("%d writes, want 9, and no phase of a volume: %v", len(c.log()), c.log())
	}
	c.letPhasesBeWritten()
	want := claim("a").Bound("pv-a").Obj()
	want.ResourceVersion = c.Claim("default", "a").ResourceVersion
	want.Status = v1.PersistentVolumeClaimStatus{
		Phase: v1.ClaimBound, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Capacity: volume("pv-a").Obj().Spec.Capacity,
	}
	if diff := cmp.Diff(want, c.Claim("default", "a")); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
	if got := c.state("b", "pv-b"); got != "pv-b Bound b:uid-b Bound" {
		t.Errorf("b: %s", got)
	}
	if c.Volume("pv-a").Annotations[plan.AnnBoundByController] != "yes" {
		t.Error("the volume is not marked as bound by a controller")
	}
	// Every volume before the first claim, every claim before its statuses.
	first := c.log()[:3]
	slices.Sort(first)
	if diff := cmp.Diff([]string{"persistentvolumes pv-a", "persistentvolumes pv-b", "persistentvolumes pv-c"}, first); diff != "" {
		t.Errorf("first writes (-want +got):\n%s", diff)
	}
	for _, name := range []string{"a", "b", "c"} {
		bind := slices.Index(c.log(), "persistentvolumeclaims "+name)
		for _, status := range []string{"persistentvolumeclaims/status " + name, "persistentvolumes/status pv-" + name} {
			if at := slices.Index(c.log(), status); at < bind {
				t.Errorf("%s was written before claim %s: %v", status, name, c.log())
			}
		}
	}
	if len(c.log()) != 12 {
		t.Errorf("%d writes, want 12: %v", len(c.log()), c.log())
	}
}

// All volumes of a pod are written concurrently: the server responds to none of the requests
// before it has received all.
func TestClaimingIsParallel(t *testing.T) {
	t.Parallel()
	c := newCluster(t, claim("a"), claim("b"), claim("c"), volume("pv-a"), volume("pv-b"), volume("pv-c"))
	var volumes, claims sync.WaitGroup
	volumes.Add(3)
	claims.Add(3)
	c.before = func(this call) error {
		switch this.resource {
		case "persistentvolumes":
			volumes.Done()
			volumes.Wait()
		case "persistentvolumeclaims":
			claims.Done()
			claims.Wait()
		}
		return nil
	}
	if err := c.binder(binder.Direct).Bind(t.Context(), c.plan("a=pv-a", "b=pv-b", "c=pv-c")); err != nil {
		t.Fatal(err)
	}
}

func TestEmptyPlanWritesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if err := c.binder(binder.Direct).Bind(t.Context(), c.plan()); err != nil || len(c.log()) > 0 {
		t.Errorf("%v, writes %v", err, c.log())
	}
}

// Another client writes between our read and our write, for each write of the binding of one
// claim.
func TestDirectConflicts(t *testing.T) {
	t.Parallel()
	const (
		pv, pvc             = "persistentvolumes pv-a", "persistentvolumeclaims a"
		pvStatus, pvcStatus = "persistentvolumes/status pv-a", "persistentvolumeclaims/status a"
	)
	free := " Pending free Available"
	ref := func(name, uid string) func(*v1.PersistentVolume) {
		return func(v *v1.PersistentVolume) {
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: name, UID: types.UID("uid-" + uid)}
		}
	}
	tests := map[string]struct {
		at    string // before this write
		do    func(*cluster)
		want  plan.FailureCode
		state string
	}{
		"volume: a label came": {at: pv, state: bound, do: func(c *cluster) {
			c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Labels = map[string]string{"x": "y"} })
		}},
		"volume: bound to us by another pod with the claim": {at: pv, state: bound, do: func(c *cluster) { c.editVolume("pv-a", ref("a", "a")) }},
		"volume: another claim was faster":                  {at: pv, want: plan.VolumeClaimed, state: " Pending z:uid-z Available", do: func(c *cluster) { c.editVolume("pv-a", ref("z", "z")) }},
		"volume: moved to another node": {at: pv, want: plan.VolumeChanged, state: free, do: func(c *cluster) {
			c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Spec.NodeAffinity = volume("x").Hostname("n2").Obj().Spec.NodeAffinity })
		}},
		"claim: a label came": {at: pvc, state: bound, do: func(c *cluster) {
			c.editClaim("a", func(p *v1.PersistentVolumeClaim) { p.Labels = map[string]string{"x": "y"} })
		}},
		"claim: the PV controller was faster": {at: pvc, state: bound, do: func(c *cluster) {
			c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
			c.editClaim("a", func(p *v1.PersistentVolumeClaim) { *p = *claim("a").Bound("pv-a").Obj() })
		}},
		"claim: bound elsewhere, the volume is released": {at: pvc, want: plan.ClaimBoundElsewhere, state: "pv-z Bound free Available", do: func(c *cluster) {
			c.editVolume("pv-z", ref("a", "a"))
			c.editClaim("a", func(p *v1.PersistentVolumeClaim) { *p = *claim("a").Bound("pv-z").Obj() })
		}},
		"claim: being deleted, the volume is released": {at: pvc, want: plan.ClaimDeleting, state: free, do: func(c *cluster) {
			c.editClaim("a", func(p *v1.PersistentVolumeClaim) { p.DeletionTimestamp = claim("x").Deleting().Obj().DeletionTimestamp })
		}},
		"volume status: Bound already": {at: pvStatus, state: bound, do: func(c *cluster) {
			c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
		}},
		"volume status: a finalizer came": {at: pvStatus, state: bound, do: func(c *cluster) {
			c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Finalizers = []string{"x/y"} })
		}},
		"claim status: written by the PV controller": {at: pvcStatus, state: bound, do: func(c *cluster) {
			c.editClaim("a", func(p *v1.PersistentVolumeClaim) {
				p.Status.Phase = v1.ClaimBound
				p.Status.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
			})
		}},
		"claim status: marked Lost by an old view, repaired": {at: pvcStatus, state: bound, do: func(c *cluster) {
			c.editClaim("a", func(p *v1.PersistentVolumeClaim) { p.Status.Phase = v1.ClaimLost })
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, claim("a"), volume("pv-a"), volume("pv-z"))
				var once sync.Once
				c.before = func(this call) error {
					if this.verb == "PUT" && this.resource+" "+this.name == tc.at {
						once.Do(func() { tc.do(c) })
					}
					return nil
				}
				err := c.binder(binder.Direct).Bind(t.Context(), c.plan("a=pv-a"))
				if got := failure(err); got != tc.want {
					t.Errorf("failure %q, want %q", got, tc.want)
				}
				c.letPhasesBeWritten()
				if got := c.state("a", "pv-a"); got != tc.state {
					t.Errorf("state %q, want %q; writes %v", got, tc.state, c.log())
				}
			})
		})
	}
}

// A write that conflicts every time ends with an error.
func TestConflictsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, claim("a"), volume("pv-a"))
	writes := 0
	c.before = func(this call) error {
		if this.verb == "PUT" {
			writes++
			c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Labels = map[string]string{"n": v.ResourceVersion} })
		}
		return nil
	}
	err := c.binder(binder.Direct).Bind(t.Context(), c.plan("a=pv-a"))
	var api *binder.APIError
	if !errors.As(err, &api) || !apierrors.IsConflict(err) || writes > 10 {
		t.Errorf("after %d writes: %v", writes, err)
	}
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "x", errors.New("no"))
}

// After a lost response it is unknown whether the write was executed.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"persistentvolumes", "persistentvolumeclaims", "persistentvolumes/status", "persistentvolumeclaims/status"} {
		for _, made := range []bool{true, false} {
			t.Run(resource, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, claim("a"), volume("pv-a"))
					var once sync.Once
					c.before = func(this call) (err error) {
						if this.verb != "PUT" || this.resource != resource {
							return nil
						}
						once.Do(func() {
							err = apierrors.NewTimeoutError("gateway", 0)
							if made {
								c.repeat(this)
							}
						})
						return err
					}
					if err := c.binder(binder.Direct).Bind(t.Context(), c.plan("a=pv-a")); err != nil {
						t.Fatal(err)
					}
					c.letPhasesBeWritten()
					if got := c.state("a", "pv-a"); got != bound {
						t.Errorf("state %q; writes %v", got, c.log())
					}
				})
			})
		}
	}
}

// repeat executes the binding's write instead of the binder.
func (c *cluster) repeat(this call) {
	b := plan.Binding{Claim: c.Claim("default", "a"), Volume: c.Volume("pv-a")}
	switch this.resource {
	case "persistentvolumes":
		want, _, _ := b.ClaimVolume(b.Volume)
		_, _ = c.putVolume(want, false)
	case "persistentvolumes/status":
		want, _, _ := b.VolumeBound(b.Volume)
		_, _ = c.putVolume(want, true)
	case "persistentvolumeclaims":
		want, _, _ := b.BindClaim(b.Claim)
		_, _ = c.putClaim(want, false)
	default:
		want, _, _ := b.ClaimBound(b.Claim, b.Volume)
		_, _ = c.putClaim(want, true)
	}
}
