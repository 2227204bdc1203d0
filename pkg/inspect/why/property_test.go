// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
)

// TestAgreesWithScheduler: in random clusters, the nodes without a reason are those that kube-scheduler finds, and with
// each change that is proposed kube-scheduler places the pod on the node that it is for. The answer is that of trimmed
// objects, and kube-scheduler has whole ones: a field that is dropped and decides is found. Each case is a subtest with the
// number of its cluster, so that one can be repeated: STOWAGE_SEED=seed go test -run 'TestAgreesWithScheduler/^17$'.
func TestAgreesWithScheduler(t *testing.T) {
	seed := campaign.Begin(t)
	cases := campaign.Scale(300, 10_000)
	seen := &seenCases{states: map[inspect.PodState]int{}, kinds: map[string]int{}}
	// A case mostly waits for informers, which poll.
	var group errgroup.Group
	group.SetLimit(16)
	for i := range cases {
		if t.Failed() {
			break
		}
		group.Go(func() error {
			t.Run(strconv.Itoa(i), func(t *testing.T) { seen.agrees(t, seed, uint64(i)) })
			return nil
		})
	}
	_ = group.Wait() // the subtests have failed
	t.Logf("cases %d, states %v, changes %v", seen.cases, seen.states, seen.kinds)
	if seen.cases < cases {
		return // a case failed, or -run selects some
	}
	for _, state := range []inspect.PodState{inspect.PodFits, inspect.PodUnschedulable} {
		if seen.states[state] == 0 {
			t.Errorf("no case ended in state %s", state)
		}
	}
	// The short form has too few cases for each of the kinds.
	for _, kind := range campaign.Scale([]string{"AddVolume", "RemoveTaint"}, []string{"AddVolume", "AddCapacity", "ShrinkClaim", "Uncordon", "RemoveTaint", "LabelNode", "LowerRequest"}) {
		if seen.kinds[kind] == 0 {
			t.Errorf("no case proposed %s", kind)
		}
	}
}

// seenCases counts the answers of the cases that have passed.
type seenCases struct {
	mu     sync.Mutex
	cases  int
	states map[inspect.PodState]int
	kinds  map[string]int
}

func (s *seenCases) add(p *podAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cases++
	s.states[p.report.State]++
	for _, c := range p.changes {
		s.kinds[c.Kind]++
	}
}

// agrees compares the answer about the pod of a random cluster with kube-scheduler.
func (s *seenCases) agrees(t *testing.T, seed, number uint64) {
	random := rand.New(rand.NewPCG(seed, number))
	objects := randomCluster(random)
	profile := schedulerconfig.Default().Profiles[0]
	if random.IntN(4) == 0 {
		profile = schedulerconfig.Stock().Profiles[0]
	}
	whole := snapshot.Build(objects...) // which gives them UIDs
	in := snapshot.Build(trimmed(objects)...)
	simulator, err := simulate.New(t.Context(), simulate.Config{Snapshot: in, Profile: profile, Plugins: registry})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	pod := snapshot.Find[*corev1.Pod](in, builders.DefaultNamespace, "tested")
	p, err := answer(t.Context(), PodQuestion{Snapshot: in, Pod: pod, Simulator: simulator})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	var fits []string
	if len(p.verdict.Everywhere) == 0 {
		for _, n := range p.verdict.Nodes {
			if len(n.Reasons) == 0 {
				fits = append(fits, n.Node.Name)
			}
		}
	}
	if diff := cmp.Diff(schedulable(t, profile.SchedulerName, snapshot.Find[*corev1.Pod](whole, pod.Namespace, pod.Name), objects), fits); diff != "" {
		t.Errorf("seed %d: nodes that fit (-kube-scheduler +why):\n%s\n%s", seed, diff, dump(objects))
	}
	for _, c := range p.changes {
		changed := objects
		if c.object != nil {
			changed = replaced(objects, c.object)
		}
		changed = replaced(changed, c.pod)
		if got := schedulable(t, profile.SchedulerName, c.pod, changed); !slices.Contains(got, c.Node) {
			t.Errorf("seed %d: with %q, the pod fits %v\n%s", seed, c.Text, got, dump(objects))
		}
	}
	if !t.Failed() {
		s.add(p)
	}
}

// trimmed returns the objects as they are read.
func trimmed(objects []snapshot.Object) []snapshot.Object {
	var all []snapshot.Object
	for _, o := range objects {
		o := o.DeepCopyObject().(snapshot.Object)
		snapshot.Trim(o)
		all = append(all, o)
	}
	return all
}

var registry = frameworkruntime.Registry{volumetopology.Name: volumetopology.New}

// schedulable returns the nodes that a kube-scheduler with real informers finds for a pod, sorted.
func schedulable(t *testing.T, name string, pod *corev1.Pod, objects []snapshot.Object) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	defer cancel()
	var all []runtime.Object
	for _, o := range objects {
		all = append(all, o.DeepCopyObject())
	}
	client := fake.NewClientset(all...)
	factory := scheduler.NewInformerFactory(client, 0, nil)
	nodes := schedulercache.NewEmptySnapshot()
	config := schedulerconfig.Default()
	if name == corev1.DefaultSchedulerName {
		config = schedulerconfig.Stock()
	}
	everything := int32(100)
	s, err := scheduler.New(ctx, client, factory, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(config.Profiles...), scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithPercentageOfNodesToScore(&everything), scheduler.WithNodeInfoSnapshot(nodes))
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	if err := s.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Cache.UpdateSnapshot(klog.FromContext(ctx), nodes); err != nil {
		t.Fatal(err)
	}
	found := &recorder{}
	s.Extenders = []fwk.Extender{found}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.SchedulePod(ctx, s.Profiles[name], framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
	slices.Sort(found.nodes)
	return found.nodes
}

// recorder is an extender that records the nodes that the plugins have found, and rejects them.
type recorder struct {
	fwk.Extender
	nodes []string
}

func (r *recorder) IsInterested(*corev1.Pod) bool { return true }
func (r *recorder) IsFilter() bool                { return true }
func (r *recorder) Filter(_ *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	for _, n := range nodes {
		r.nodes = append(r.nodes, n.Node().Name)
	}
	return nil, nil, nil, nil
}

// replaced returns the objects with one more, or instead of that of its type and name.
func replaced(objects []snapshot.Object, object snapshot.Object) []snapshot.Object {
	objects = slices.DeleteFunc(slices.Clone(objects), func(o snapshot.Object) bool {
		return fmt.Sprintf("%T", o) == fmt.Sprintf("%T", object) && o.GetName() == object.GetName() && o.GetNamespace() == object.GetNamespace()
	})
	return append(objects, object)
}

func dump(objects []snapshot.Object) string {
	text := ""
	for _, o := range objects {
		text += fmt.Sprintf("%T %s: %s\n", o, o.GetName(), func() string { text, _ := json.Marshal(o); return string(text) }())
	}
	return text
}

// randomCluster returns a small cluster with a pod that is tested.
func randomCluster(r *rand.Rand) []snapshot.Object {
	g := &generator{Rand: r}
	g.add(
		builders.MakeClass("local").Obj(), builders.MakeClass("dynamic").Provisioner("driver").Obj(), builders.MakeClass("now").Immediate().Obj(),
		builders.MakeCSIDriver("driver").StorageCapacity(g.chance(2)).Obj(),
	)
	for i := range 1 + g.IntN(5) {
		g.node(fmt.Sprintf("n%d", i))
	}
	for i := range g.IntN(4) {
		g.other(fmt.Sprintf("other-%d", i))
	}
	g.tested()
	return g.objects
}

type generator struct {
	*rand.Rand
	objects []snapshot.Object
	nodes   []string
	volumes int
	// reserved are the claims that a volume is reserved for.
	reserved []string
}

func (g *generator) add(objects ...snapshot.Object) { g.objects = append(g.objects, objects...) }
func (g *generator) chance(of int) bool             { return g.IntN(of) == 0 }
func (g *generator) size() string                   { return fmt.Sprintf("%dGi", 1+g.IntN(8)) }

func (g *generator) node(name string) {
	b := builders.MakeNode(name).Zone(fmt.Sprintf("z%d", g.IntN(2)))
	if g.chance(2) {
		b.Label("disk", []string{"fast", "slow"}[g.IntN(2)])
	}
	node := b.Obj()
	if g.chance(4) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule})
	}
	if g.chance(5) {
		node.Spec.Unschedulable = true
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}, SizeBytes: 1 << 30}}
	node.Status.VolumesInUse = []corev1.UniqueVolumeName{"volume"}
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "volume"}}
	g.add(node)
	g.nodes = append(g.nodes, name)
	for range g.IntN(3) {
		g.volumes++
		v := builders.MakePV(fmt.Sprintf("v%d", g.volumes)).Class("local").Capacity(g.size()).Hostname(name)
		switch g.IntN(6) {
		case 0:
			// Of two volumes for one claim, VolumeBinding takes the first in the order of a map.
			if claim := fmt.Sprintf("tested-%d", g.IntN(2)); !slices.Contains(g.reserved, claim) {
				g.reserved = append(g.reserved, claim)
				v.ClaimRef(builders.DefaultNamespace, claim, "")
			}
		case 1:
			v.ClaimRef("elsewhere", "claim", "1").Phase(corev1.VolumeReleased)
		case 2:
			v.Block()
		}
		g.add(v.Obj())
	}
	if g.chance(2) {
		g.add(builders.MakeCapacity("capacity-"+name, "dynamic").Hostname(name).Capacity(g.size()).Obj())
	}
}

// other adds a pod that runs, or is nominated to a node.
func (g *generator) other(name string) {
	node := g.nodes[g.IntN(len(g.nodes))]
	b := builders.MakePod(name).Label("app", []string{"a", "b"}[g.IntN(2)]).Requests(fmt.Sprint(1+g.IntN(30)), "1Gi").Priority(int32(g.IntN(3)))
	if g.chance(3) {
		b.NominatedNode(node)
		if g.chance(2) {
			g.add(builders.MakePVC(name).Class("local").Request(g.size()).Obj())
			b.PVC(name)
		}
	} else {
		b.Node(node).Phase(corev1.PodRunning)
	}
	pod := b.Obj()
	g.details(pod)
	if g.chance(4) {
		// Its container has been resized, and has more than the new requests.
		pod.Status.ContainerStatuses[0].AllocatedResources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("31")}
	}
	g.add(pod)
}

// details adds what pods have and schedulers do not read, except for the port.
func (g *generator) details(pod *corev1.Pod) {
	pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "net"}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	pod.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"example.com"}}
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1"}}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
	c := &pod.Spec.Containers[0]
	c.Command, c.Args, c.WorkingDir = []string{"sh"}, []string{"-c"}, "/"
	c.Env = []corev1.EnvVar{{Name: "E", Value: "v"}}
	c.EnvFrom = []corev1.EnvFromSource{{Prefix: "E"}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "vol-0", MountPath: "/data"}}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe, probe, probe
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}}
	c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	if g.chance(3) {
		c.Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

// tested adds the pod that is tested, and its claims.
func (g *generator) tested() {
	b := builders.MakePod("tested").Label("app", "a").Requests(fmt.Sprint(1+g.IntN(34)), "1Gi").Priority(int32(g.IntN(3)))
	if g.chance(4) {
		b.NodeSelector("disk", "fast")
	}
	for i := range g.IntN(3) {
		name := fmt.Sprintf("tested-%d", i)
		b.PVC(name)
		class := []string{"local", "local", "local", "dynamic", "dynamic", "now", "absent"}[g.IntN(7)]
		claim := builders.MakePVC(name).Class(class).Request(g.size())
		switch {
		case g.chance(12):
			continue // does not exist
		case g.chance(6) && class == "local":
			g.volumes++
			volume := fmt.Sprintf("v%d", g.volumes)
			claim.Bound(volume)
			if !g.chance(5) {
				g.add(builders.MakePV(volume).Class("local").Capacity("9Gi").Hostname(g.nodes[g.IntN(len(g.nodes))]).ClaimRef(builders.DefaultNamespace, name, "").Phase(corev1.VolumeBound).Obj())
			}
		case g.chance(8) && class == "dynamic":
			claim.SelectedNode(g.nodes[g.IntN(len(g.nodes))])
		}
		g.add(claim.Obj())
	}
	pod := b.Obj()
	g.details(pod)
	if g.chance(3) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	if g.chance(4) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector}}
	}
	if g.chance(4) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: selector}}}}
	}
	g.add(pod)
}
