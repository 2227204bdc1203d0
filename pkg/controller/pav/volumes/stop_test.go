// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/pav/helperpod"
)

// bound is the summary of a claim that has its volume.
var bound = []string{"pavvolumes Provisioned", "persistentvolumes Bound", "storage"}

// interruption is what happens at a write of the controller.
type interruption struct {
	name string
	// after: the write was made; else it is not, unless it is repeated.
	after bool
	// err is what the controller sees instead of the response; nil: the response.
	err error
	// act is what another client does.
	act func(*cluster)
	// want is the summary in the end.
	want []string
}

// at interrupts the n-th write; reached reports whether there was one.
func (c *cluster) at(n int, i interruption) (reached func() bool) {
	writes, done := 0, false
	interrupt := func(after bool) error {
		if !after {
			writes++
		}
		if done || writes != n || after != i.after {
			return nil
		}
		done = true
		if i.act != nil {
			i.act(c)
		}
		return i.err
	}
	c.before = func(string) error { return interrupt(false) }
	c.after = func(string) error { return interrupt(true) }
	return func() bool { return done }
}

func deleteClaim(c *cluster) { c.remove(claimKey) }

// deleteAll returns a deletion of all objects of a resource.
func deleteAll(resource string) func(*cluster) {
	return func(c *cluster) {
		for _, k := range c.keys(resource) {
			c.remove(k)
		}
	}
}

func setClock(by time.Duration) func(*cluster) {
	return func(c *cluster) { c.time = c.time.Add(by) }
}

func changeProvisioner(c *cluster) {
	c.edit(provisionerKey, func(o object) { o["spec"].(object)["mountOptions"] = []any{"noatime"} })
}

// always returns the interruptions that happen before a write, and after it. What another client
// does before a write, while the controller continues, it does after the write before.
func always(all []interruption) []interruption {
	var both []interruption
	for _, i := range all {
		if i.err != nil {
			both = append(both, i)
		}
		i.after = true
		both = append(both, i)
	}
	return both
}

func interruptions() []interruption {
	return always([]interruption{
		{name: "killed", err: errKilled, want: bound},
		{name: "the answer is lost", err: errLost, want: bound},
		{name: "claim deleted", act: deleteClaim},
		{name: "claim deleted, killed", act: deleteClaim, err: errKilled},
		{name: "claim deleted, the answer is lost", act: deleteClaim, err: errLost},
		{name: "claim recreated", want: bound, act: func(c *cluster) {
			c.remove(claimKey)
			c.add(claimKey, claimText)
		}},
		{name: "claim resized", want: bound, act: func(c *cluster) {
			c.edit(claimKey, func(o object) { o["spec"].(object)["resources"] = object{"requests": object{"storage": "2Gi"}} })
		}},
		{name: "class deleted and recreated", want: bound, act: func(c *cluster) {
			c.remove(classKey)
			c.add(classKey, classText)
		}},
		{name: "class recreated with other parameters", want: bound, act: func(c *cluster) {
			c.remove(classKey)
			c.add(classKey, classText+"parameters: {pool: other}\n")
		}},
		{name: "clock set back", want: bound, act: setClock(-24 * time.Hour)},
		{name: "clock set forward", want: bound, act: setClock(24 * time.Hour)},
		{name: "provisioner changed", want: bound, act: changeProvisioner},
		{name: "PavVolume deleted", want: bound, act: deleteAll("pavvolumes")},
		{name: "helper pods deleted", want: bound, act: deleteAll("pods")},
	})
}

// interrupted runs a cluster that prepare returns, interrupted at every one of the writes that
// follow, until fewer writes than n happen.
func interrupted(t *testing.T, i interruption, prepare func(*testing.T) *cluster) {
	t.Helper()
	n := 1
	for ; ; n++ {
		c := prepare(t)
		reached := c.at(n, i)
		c.settle()
		if !reached() {
			break
		}
		if diff := cmp.Diff(i.want, c.summary()); diff != "" {
			t.Errorf("write %d: (-want +got):\n%s\nevents %v", n, diff, c.events)
		}
		if t.Failed() {
			return
		}
	}
	if n < 8 {
		t.Errorf("only %d writes", n-1)
	}
}

// The controller is interrupted at every one of its writes while it makes a volume, in every way.
// cluster.check holds at any time; in the end the claim has one volume, or nothing is left. Helper
// pods run in the provisioner namespace and the first creation fails, or in that of the claim.
func TestInterruptedAtAnyWrite(t *testing.T) {
	t.Parallel()
	for _, i := range interruptions() {
		t.Run(fmt.Sprintf("a failure, then %s, after %t", i.name, i.after), func(t *testing.T) {
			t.Parallel()
			interrupted(t, i, func(t *testing.T) *cluster {
				c := newCluster(t, "stowage-pav")
				c.failing[helperpod.Creation] = 1
				return c
			})
		})
		t.Run(fmt.Sprintf("in the claim's namespace, %s, after %t", i.name, i.after), func(t *testing.T) {
			t.Parallel()
			interrupted(t, i, func(t *testing.T) *cluster { return newCluster(t, "ns") })
		})
	}
}

// The same while a volume is deleted, whose first deletion pod fails.
func TestDeletionInterruptedAtAnyWrite(t *testing.T) {
	t.Parallel()
	for _, i := range always([]interruption{
		{name: "killed", err: errKilled},
		{name: "the answer is lost", err: errLost},
		{name: "PersistentVolume deleted", act: deleteAll("persistentvolumes")},
		{name: "PavVolume deleted", act: deleteAll("pavvolumes")},
		{name: "helper pods deleted", act: deleteAll("pods")},
		{name: "provisioner deleted", act: deleteAll("pavprovisioners")},
		{name: "provisioner deleted, killed", act: deleteAll("pavprovisioners"), err: errKilled},
		{name: "class deleted", act: deleteAll("storageclasses")},
		{name: "provisioner changed", act: changeProvisioner},
		{name: "clock set back", act: setClock(-24 * time.Hour)},
		{name: "clock set forward", act: setClock(24 * time.Hour)},
	}) {
		t.Run(fmt.Sprintf("%s, after %t", i.name, i.after), func(t *testing.T) {
			t.Parallel()
			interrupted(t, i, func(t *testing.T) *cluster {
				c := newCluster(t, "stowage-pav")
				c.settle()
				if diff := cmp.Diff(bound, c.summary()); diff != "" {
					t.Fatalf("before the deletion (-want +got):\n%s", diff)
				}
				c.failing[helperpod.Deletion] = 1
				c.remove(claimKey)
				return c
			})
		})
	}
}
