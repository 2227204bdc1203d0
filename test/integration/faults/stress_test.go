// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
)

var (
	stressNodes = campaign.Scale(8, 20)
	stressPods  = campaign.Scale(120, 300) // that exist at the same time, most of them waiting
	// stressTime is how long TestStress creates and deletes pods.
	stressTime = campaign.Scale(15*time.Second, 3*time.Minute)
)

// stressPace bounds what TestStress does per second, so that the other tests have a share of the
// machine.
const stressPace = 25

// sizes of the ten volumes of a node, in Gi: any pod fits a node that is empty.
var sizes = []int{4, 4, 4, 4, 3, 3, 2, 2, 1, 1}

// TestStress: pods with one to four claims are created and deleted at random on nodes with
// far fewer volumes than requested, Released volumes are recycled in several ways,
// and in the end every pod that was not deleted has been placed.
// No volume belongs to two claims at any time.
func TestStress(t *testing.T) {
	t.Parallel()
	seed := campaign.Begin(t)
	e := fixture.New(t)
	e.Timeout = waitTimeout
	s := e.Start(fixture.SchedulerOptions{
		Profiles: []fixture.Profile{
			{Name: e.Name("direct")}, {Name: e.Name("pv-controller"), Args: fixture.PVControllerArgs()},
		},
		MaxBackoffSeconds: 1,
	})
	c := &churn{Env: e, random: rand.New(rand.NewPCG(seed, 0)), profiles: s.Names, pods: map[string]*v1.Pod{}}
	records := newLedger(func() error { return s.Cache().Check() })
	r := newRecycler(e.Client, records, c.addStorage())
	wait := r.start(e.Context(), e.Namespace)
	stopped := false
	defer func() {
		if !stopped {
			_ = wait() // the test has failed already
		}
	}()

	c.run(stressTime)
	c.drain()
	wantSettled(e, slices.Collect(maps.Values(c.pods))...)
	wantNothingReserved(e, s)
	e.Wait("every volume to be Available or Bound", func() bool { return c.volumesAreBack() })
	stopped = true
	if err := wait(); err != nil {
		t.Errorf("recycle a volume: %v", err)
	}
	events, checks, mistakes := records.result()
	for _, mistake := range mistakes {
		t.Error(mistake)
	}
	t.Logf("%d pods created, %d deleted while they waited, %d claims handed on; %d volumes cleared, %d replaced; %d events on claims, cache checked %d times",
		c.created, c.interrupted, c.inherited, r.cleared.Load(), r.replaced.Load(), events, checks)
}

// churn makes and deletes pods. Only the test's own goroutine uses it.
type churn struct {
	*fixture.Env
	random   *rand.Rand
	profiles []string
	pods     map[string]*v1.Pod // that exist, by name

	created, interrupted, inherited int
}

// addStorage makes the nodes and their volumes.
func (c *churn) addStorage() []*v1.PersistentVolume {
	c.T.Helper()
	var nodes []*builders.Node
	var volumes []*builders.PV
	for n := range stressNodes {
		node := fmt.Sprintf("node-%d", n)
		nodes = append(nodes, c.Node(node))
		for i, size := range sizes {
			disk := []string{"ssd", "hdd"}[i%2]
			volumes = append(volumes, c.LocalPV(fmt.Sprintf("%s-%d", node, i), node).Capacity(fmt.Sprintf("%dGi", size)).Label("disk", disk))
		}
	}
	c.AddNodes(nodes...)
	return c.CreatePVs(volumes...)
}

// run creates the maximum number of pods, and then deletes and creates at
// random, for this duration.
func (c *churn) run(d time.Duration) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), d)
	defer cancel()
	c.fill()
	pace := flowcontrol.NewTokenBucketRateLimiter(stressPace, 1)
	for pace.Wait(ctx) == nil {
		switch {
		case len(c.pods) < stressPods && c.random.IntN(3) > 0:
			c.create(nil)
		case c.random.IntN(4) > 0:
			c.deleteOne(c.placed())
		default:
			c.deleteOne(slices.Sorted(maps.Keys(c.pods)))
		}
	}
}

// drain deletes placed pods until all pending ones have been placed.
func (c *churn) drain() {
	c.T.Helper()
	pace := flowcontrol.NewTokenBucketRateLimiter(stressPace, 1)
	for {
		placed := c.placed()
		if len(placed) == len(c.pods) {
			return
		}
		if len(placed) == 0 {
			c.Wait(fmt.Sprintf("one of %d pods to be placed", len(c.pods)), func() bool { return len(c.placed()) > 0 })
			continue
		}
		if err := pace.Wait(c.Context()); err != nil {
			c.T.Fatal(err)
		}
		c.deletePod(placed[c.random.IntN(len(placed))], true)
	}
}

// placed are the names of the pods that have a node.
func (c *churn) placed() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		if seen := c.SeenPod(name); seen != nil && seen.Spec.NodeName != "" {
			names = append(names, name)
		}
	}
	return names
}

// fill creates the maximum number of pods, many at a time.
func (c *churn) fill() {
	c.T.Helper()
	group, ctx := errgroup.WithContext(c.Context())
	group.SetLimit(16)
	made := make([]*v1.Pod, stressPods)
	for i := range made {
		pod, claims := c.next(nil)
		group.Go(func() (err error) {
			made[i], err = c.store(ctx, pod, claims)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		c.T.Fatal(err)
	}
	for _, pod := range made {
		c.pods[pod.Name] = pod
	}
}

// create makes a pod with existing claims, or new ones.
func (c *churn) create(inherited []string) {
	c.T.Helper()
	pod, claims := c.next(inherited)
	made, err := c.store(c.Context(), pod, claims)
	if err != nil {
		c.T.Fatal(err)
	}
	c.pods[made.Name] = made
}

// next describes the next pod, and the claims to create for it.
func (c *churn) next(inherited []string) (*v1.Pod, []*v1.PersistentVolumeClaim) {
	c.created++
	c.Use(c.profiles[c.random.IntN(len(c.profiles))])
	name := fmt.Sprintf("pod-%d", c.created)
	pod := c.Pod(name).PVC(inherited...)
	if inherited != nil {
		return pod.Obj(), nil
	}
	var claims []*v1.PersistentVolumeClaim
	special := c.random.IntN(8) // one claim of some pods selects a certain disk
	for i := range 1 + c.random.IntN(4) {
		claim := c.PVC(fmt.Sprintf("%s-%d", name, i)).Request(fmt.Sprintf("%dGi", 1+c.random.IntN(4)))
		if i == special {
			claim.MatchLabel("disk", "ssd")
		}
		claims = append(claims, claim.Obj())
		pod.PVC(claims[i].Name)
	}
	return pod.Obj(), claims
}

// store creates a pod after its claims.
func (c *churn) store(ctx context.Context, pod *v1.Pod, claims []*v1.PersistentVolumeClaim) (*v1.Pod, error) {
	for _, claim := range claims {
		if _, err := c.Client.CoreV1().PersistentVolumeClaims(c.Namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	return c.Client.CoreV1().Pods(c.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// deleteOne deletes one of the pods, in any state. Some leave
// their claims to another pod.
func (c *churn) deleteOne(names []string) {
	c.T.Helper()
	if len(names) == 0 {
		return
	}
	name := names[c.random.IntN(len(names))]
	claims := claimsOf(c.pods[name])
	if seen := c.SeenPod(name); seen != nil && seen.Spec.NodeName == "" {
		c.interrupted++
	}
	if c.random.IntN(5) > 0 {
		c.deletePod(name, true)
		return
	}
	c.deletePod(name, false)
	c.inherited += len(claims)
	c.create(claims)
}

func (c *churn) deletePod(name string, withClaims bool) {
	c.T.Helper()
	claims := claimsOf(c.pods[name])
	delete(c.pods, name)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := c.Client.CoreV1().Pods(c.Namespace).Delete(c.Context(), name, now); err != nil {
		c.T.Fatal(err)
	}
	if !withClaims {
		return
	}
	for _, claim := range claims {
		c.DeletePVC(claim)
	}
}

func (c *churn) volumesAreBack() bool {
	volumes := c.SeenPVs()
	for _, volume := range volumes {
		if volume.Status.Phase != v1.VolumeAvailable && volume.Status.Phase != v1.VolumeBound {
			return false
		}
	}
	return len(volumes) == stressNodes*len(sizes)
}
