// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
)

// simulation drives a volume cache with random events, late handlers, reservations
// and releases, and compares it with a naive model: plain maps, every result computed from
// all volumes.
type simulation struct {
	*testbed
	rng      *rand.Rand
	volumes  map[string]*v1.PersistentVolume
	nodes    map[string]*v1.Node
	claims   map[string]*v1.PersistentVolumeClaim
	pods     map[string]*v1.Pod           // that have reserved
	reserved map[string]map[string]string // pod → claim → volume
	// nominated are pods that wait for the node which they are nominated to.
	nominated map[string]*v1.Pod
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	return &simulation{
		testbed:   newTestbed(t, wffc("local"), wffc("fast")),
		rng:       rand.New(rand.NewPCG(seed, seed)),
		volumes:   map[string]*v1.PersistentVolume{},
		nodes:     map[string]*v1.Node{},
		claims:    map[string]*v1.PersistentVolumeClaim{},
		pods:      map[string]*v1.Pod{},
		reserved:  map[string]map[string]string{},
		nominated: map[string]*v1.Pod{},
	}
}

func (s *simulation) pick(prefix string, n int) string { return prefix + strconv.Itoa(s.rng.IntN(n)) }

// event changes one object.
func (s *simulation) event() {
	switch roll := s.rng.IntN(100); {
	case roll < 12:
		name := s.pick("n", 6)
		s.nodes[name] = builders.MakeNode(name).UID("node-"+name).Hostname(name).Zone(s.pick("z", 3)).Label("rack", s.pick("r", 2)).Obj()
		s.put(s.nodes[name])
	case roll < 16:
		name := s.pick("n", 6)
		if object := s.nodes[name]; object != nil {
			delete(s.nodes, name)
			s.remove(object)
		}
	case roll < 50:
		s.volumeEvent()
	case roll < 58:
		name := s.pick("v", 25)
		if pv := s.volumes[name]; pv != nil {
			delete(s.volumes, name)
			s.remove(pv)
			s.contradict(name)
		}
	case roll < 72:
		s.claimEvent()
	case roll < 75:
		s.nominationEvent()
	case roll < 80:
		s.hold()
	default:
		s.release()
	}
}

func (s *simulation) volumeEvent() {
	name := s.pick("v", 25)
	made := builders.MakePV(name).UID("pv-" + name).Class([]string{"local", "fast"}[s.rng.IntN(2)]).
		Capacity(strconv.Itoa(1+s.rng.IntN(4)) + "Gi").Phase(v1.VolumeAvailable)
	switch s.rng.IntN(6) {
	case 0: // everywhere
	case 1:
		made.Zone(s.pick("z", 3))
	case 2:
		made.NodeName(s.pick("n", 6))
	case 3:
		made.Affinity(builders.Term(builders.Requirement("rack", v1.NodeSelectorOpNotIn, s.pick("r", 2))))
	case 4:
		made.Hostname(s.pick("n", 6), s.pick("n", 6))
	default:
		made.Hostname(s.pick("n", 6))
	}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	if s.rng.IntN(3) == 0 {
		modes = append(modes, v1.ReadWriteMany)
	}
	made.AccessModes(modes...)
	if s.rng.IntN(2) == 0 {
		made.Label("tier", s.pick("t", 2))
	}
	switch s.rng.IntN(8) {
	case 0:
		made.Phase(v1.VolumePending)
	case 1:
		claim := s.pick("c", 12)
		made.ClaimRef("default", claim, []string{"", "pvc-" + claim, "pvc-former"}[s.rng.IntN(3)])
	}
	s.volumes[name] = made.Obj()
	s.put(s.volumes[name])
	s.contradict(name)
}

// contradict ends reservations of the volume that its new state contradicts. It delivers
// the delayed events: the cache cannot know a state that it does not observe.
func (s *simulation) contradict(name string) {
	pv := s.volumes[name]
	for _, claims := range s.reserved {
		for claim, volume := range claims {
			if volume == name && (pv == nil || !free(pv) && !match.RefersTo(pv.Spec.ClaimRef, s.claims[claim])) {
				s.release()
				delete(claims, claim)
			}
		}
	}
}

func free(pv *v1.PersistentVolume) bool { return match.NewVolume(pv).Free() }

func (s *simulation) claimEvent() {
	name := s.pick("c", 12)
	if s.claims[name] != nil {
		return // claims stay: their spec is immutable
	}
	made := pvc(name, strconv.Itoa(1+s.rng.IntN(3))+"Gi").Class([]string{"local", "fast"}[s.rng.IntN(2)])
	if s.rng.IntN(4) == 0 {
		made.AccessModes(v1.ReadWriteMany)
	}
	switch s.rng.IntN(5) {
	case 0:
		made.MatchLabel("tier", s.pick("t", 2))
	case 1:
		made.MatchExpression("tier", "NotIn", s.pick("t", 2))
	case 2:
		made.SelectedNode(s.pick("n", 6)) // nothing provisions the class
	}
	s.claims[name] = made.Obj()
	s.put(s.claims[name])
}

// nominationEvent nominates a pod to a node, existing or not, or removes the nomination.
func (s *simulation) nominationEvent() {
	name := s.pick("m", 4)
	if p := s.nominated[name]; p != nil && s.rng.IntN(2) == 0 {
		delete(s.nominated, name)
		s.put(s.podOf(name, "", p.Spec.Volumes))
		return
	}
	if p := s.pod(name); p != nil && s.pods[name] == nil {
		s.nominated[name] = s.podOf(name, s.pick("n", 6), p.Spec.Volumes)
		s.put(s.nominated[name])
	}
}

func (s *simulation) podOf(name, node string, volumes []v1.Volume) *v1.Pod {
	p := builders.MakePod(name).Namespace("default").UID("pod-" + name).Priority(s.rng.Int32N(3)).NominatedNode(node).Obj()
	p.Spec.Volumes = volumes
	return p
}

// withheld is the model's result: what nominated pods ahead of the pod need.
func (s *simulation) withheld(p *v1.Pod) map[string]bool {
	competes := s.nominated[p.Name] != nil
	var ahead []*v1.Pod
	for _, name := range sorted(s.nominated) {
		other := s.nominated[name]
		first := *other.Spec.Priority > *p.Spec.Priority || *other.Spec.Priority == *p.Spec.Priority && (!competes || other.UID < p.UID)
		if name != p.Name && s.pods[name] == nil && first {
			ahead = append(ahead, other)
		}
	}
	slices.SortStableFunc(ahead, func(a, b *v1.Pod) int { return cmp.Compare(*b.Spec.Priority, *a.Spec.Priority) })
	withheld := map[string]bool{}
	for _, other := range ahead {
		if node := other.Status.NominatedNodeName; s.nodes[node] != nil {
			for _, volume := range s.expect(other, node, withheld) {
				withheld[volume] = true
			}
		}
	}
	return withheld
}

// sorted makes histories repeatable: maps are iterated in the order of their keys.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// observeAll observes everything whose handler may be late, as the
// hints of the events would.
func (s *simulation) observeAll() {
	for _, name := range sorted(s.volumes) {
		s.ObserveVolume(name)
	}
	for _, name := range sorted(s.nodes) {
		s.ObserveNode(name)
	}
}

// expect is the model's result: the volumes for a pod's claims on a node, nil
// if it does not fit without those that are withheld.
func (s *simulation) expect(p *v1.Pod, node string, withheld map[string]bool) map[string]string {
	taken := maps.Clone(withheld)
	heldFor := map[string]string{}
	for _, claims := range s.reserved {
		for claim, volume := range claims {
			taken[volume], heldFor[claim] = true, volume
		}
	}
	got := map[string]string{}
	byClass := map[string][]*match.Request{}
	for _, use := range p.Spec.Volumes {
		claim := s.claims[use.PersistentVolumeClaim.ClaimName]
		request, err := match.NewRequest(claim)
		if err != nil {
			s.t.Fatal(err)
		}
		if volume := heldFor[claim.Name]; volume != "" {
			if !s.admits(volume, node) {
				return nil
			}
			got[claim.Name] = volume
			continue
		}
		if named, mine := s.named(request, node); mine {
			if named == "" {
				return nil
			}
			got[claim.Name] = named
			continue
		}
		byClass[request.Class] = append(byClass[request.Class], request)
	}
	for class, requests := range byClass {
		if !s.assign(got, class, requests, node, taken) {
			return nil
		}
	}
	return got
}

func (s *simulation) admits(volume, node string) bool {
	return topology.FromNodeAffinity(s.volumes[volume].Spec.NodeAffinity).Admits(s.nodes[node])
}

// named is the volume whose claimRef names the claim, if any fits.
func (s *simulation) named(r *match.Request, node string) (best string, mine bool) {
	var bestVolume *match.Volume
	for name, pv := range s.volumes {
		if !match.RefersTo(pv.Spec.ClaimRef, r.Claim) {
			continue
		}
		mine = true
		if v := match.NewVolume(pv); r.FitsSpec(v) && s.admits(name, node) && (bestVolume == nil || match.Less(r, v, bestVolume)) {
			best, bestVolume = name, v
		}
	}
	return best, mine
}

func (s *simulation) assign(got map[string]string, class string, requests []*match.Request, node string, taken map[string]bool) bool {
	candidates := make([][]*match.Volume, len(requests))
	for i, r := range requests {
		for name, pv := range s.volumes {
			if v := match.NewVolume(pv); v.Free() && !taken[name] && r.Matches(v) && s.admits(name, node) {
				candidates[i] = append(candidates[i], v)
			}
		}
		slices.SortFunc(candidates[i], func(a, b *match.Volume) int {
			if match.Less(r, a, b) {
				return -1
			}
			return cmp.Compare(1, 0)
		})
	}
	var solver match.Solver
	for i, v := range solver.Assign(requests, candidates) {
		if v == nil {
			return false
		}
		got[requests[i].Claim.Name] = v.Name
	}
	return true
}

// pod returns a pod with one to three of the existing claims.
func (s *simulation) pod(name string) *v1.Pod {
	names := sorted(s.claims)
	if len(names) == 0 {
		return nil
	}
	s.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return s.podOf(name, "", pod(name, names[:min(len(names), 1+s.rng.IntN(3))]...).Spec.Volumes)
}

// act reserves for a pod or releases a pod's reservation, and compares.
func (s *simulation) act(i int) {
	if len(s.pods) > 0 && s.rng.IntN(3) == 0 {
		name := sorted(s.pods)[s.rng.IntN(len(s.pods))]
		s.Release(s.pods[name].UID)
		delete(s.pods, name)
		delete(s.reserved, name)
		return
	}
	p := s.pod("p" + strconv.Itoa(i))
	if name := s.pick("m", 4); s.nominated[name] != nil {
		p = s.nominated[name]
	}
	if p == nil || s.pods[p.Name] != nil {
		return
	}
	s.observeAll()
	if s.queue != nil {
		// Deletions have no hint: deleted objects may still be in the cache. Deliver
		// them before comparing.
		s.release()
	}
	demand := s.demand(p)
	s.Withhold(demand)
	withheld := s.withheld(p)
	for _, name := range sorted(s.nodes) {
		object, want := s.nodes[name], s.expect(p, name, withheld)
		if got := s.Fits(demand, object); (got.Code == match.Fits) != (want != nil) {
			s.t.Fatalf("step %d, pod %s on node %s: Fits returns %+v, the model %v", i, p.Name, name, got, want)
		}
	}
	for _, name := range sorted(s.nodes) {
		want := s.expect(p, name, withheld)
		got := s.reserveFor(demand, name)
		if diff := gocmp.Diff(want, got); diff != "" {
			s.t.Fatalf("step %d, node %s: reserved (-model +cache):\n%s", i, name, diff)
		}
		if got != nil {
			s.pods[p.Name], s.reserved[p.Name] = p, got
			delete(s.nominated, p.Name) // until the next update nominates it
			return
		}
	}
}

// TestSimulation compares the cache with the model over random histories.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seed := campaign.Begin(t)
	const steps = 400
	runs := campaign.Scale(25, 5000)
	for run := range runs {
		t.Run(fmt.Sprint("run ", run), func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, seed+uint64(run))
			for i := range steps {
				s.event()
				if i%3 == 0 {
					s.act(i)
				}
				s.check()
			}
			s.release()
			for _, p := range s.pods {
				s.Release(p.UID)
			}
			s.check()
			if size := s.Size(); size.Reservations != 0 {
				t.Errorf("%d reservations are left", size.Reservations)
			}
		})
	}
}

// TestConcurrentUse runs decisions, reservations and events concurrently; the
// race detector and Check verify them.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, wffc("local"))
	for n := range 8 {
		name := "n" + strconv.Itoa(n)
		w.put(node(name))
		for i := range 4 {
			w.put(localPV(fmt.Sprintf("v-%d-%d", n, i), name, strconv.Itoa(1+i)+"Gi").Label("tier", strconv.Itoa(i%2)).Obj())
		}
	}
	for i := range 8 {
		w.put(pvc("c"+strconv.Itoa(i), "1Gi").Obj(), pvc("s"+strconv.Itoa(i), "2Gi").MatchLabel("tier", "1").Obj())
	}
	nodes := nodesOf(w)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			p := pod("p"+strconv.Itoa(worker), "c"+strconv.Itoa(worker), "s"+strconv.Itoa(worker))
			for i := range 200 {
				d, _, err := w.Demand(p)
				if err != nil {
					t.Error(err)
					return
				}
				for _, object := range nodes {
					w.Fits(d, object)
					w.Usage(d, object, nil)
				}
				if _, reason := w.Reserve(d, nodes[i%len(nodes)].Name); reason.Code == match.Fits {
					w.Release(p.UID)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 400 {
			pv := localPV(fmt.Sprintf("v-%d-%d", i%8, i%4), "n"+strconv.Itoa(i%8), strconv.Itoa(1+i%4)+"Gi").Label("tier", strconv.Itoa(i%2))
			if i%3 == 0 {
				pv.ClaimRef("default", "c"+strconv.Itoa(i%8), "")
			}
			w.put(pv.Obj())
		}
	})
	wg.Wait()
	w.check()
	for worker := range 4 {
		w.Release(types.UID("pod-p" + strconv.Itoa(worker)))
	}
	w.check()
}
