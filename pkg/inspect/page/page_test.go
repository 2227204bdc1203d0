// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/live"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/testing/builders"
)

// nodes is a message with nodes.
type nodes struct {
	Reset    bool     `json:"reset"`
	Complete bool     `json:"complete"`
	Nodes    []node   `json:"nodes"`
	Removed  []string `json:"removed"`
}

func (n nodes) names() []string {
	names := []string{}
	for _, node := range n.Nodes {
		names = append(names, node.Name)
	}
	slices.Sort(names)
	return names
}

func zone(name, zone string) *corev1.Node { return builders.MakeNode(name).Zone(zone).Obj() }

// TestState: a page that is opened before the cluster is read learns that, and the connection.
func TestState(t *testing.T) {
	t.Parallel()
	cluster := newSource()
	cluster.connection = live.Connection{Err: live.ErrConnecting, Since: epoch}
	r := open(t, cluster, answers{})
	b := r.connect()
	want := state{Cluster: "test", Error: live.ErrConnecting.Error(), Since: "2026-03-01T12:00:00Z", Unseen: []string{}}
	if diff := cmp.Diff(want, next[state](b, eventState)); diff != "" {
		t.Errorf("connecting (-want +got):\n%s", diff)
	}
	cluster.connect(live.Connection{LastSeen: epoch})
	want = state{Cluster: "test", Error: reading, Unseen: []string{}, Time: "2026-03-01T12:00:00Z"}
	if diff := cmp.Diff(want, next[state](b, eventState)); diff != "" {
		t.Errorf("connected, and not read (-want +got):\n%s", diff)
	}
	cluster.set(zone("a", "z"))
	want = state{Cluster: "test", Connected: true, Unseen: []string{}, Time: "2026-03-01T12:00:00Z", Nodes: 1}
	if diff := cmp.Diff(want, next[state](b, eventState)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	cluster.connect(live.Connection{Err: errors.New("no\nconnection"), Since: epoch.Add(time.Hour), LastSeen: epoch.Add(time.Minute)})
	want = state{Cluster: "test", Error: "no connection", Since: "2026-03-01T13:00:00Z", Unseen: []string{}, Time: "2026-03-01T12:01:00Z", Nodes: 1}
	if diff := cmp.Diff(want, next[state](b, eventState)); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
}

// TestNodes: a page gets all nodes, in chunks, and then those that change.
func TestNodes(t *testing.T) {
	t.Parallel()
	var objects []snapshot.Object
	for i := range 2*maxNodes + 1 {
		objects = append(objects, zone(fmt.Sprintf("n-%04d", i), "z"))
	}
	cluster := newSource(objects...)
	r := open(t, cluster, answers{})
	b := r.connect()
	var got []string
	for i := range 3 {
		m := next[nodes](b, eventNodes)
		if m.Reset != (i == 0) || m.Complete != (i == 2) || len(m.Nodes) > maxNodes {
			t.Errorf("message %d: reset %v, complete %v, %d nodes", i, m.Reset, m.Complete, len(m.Nodes))
		}
		got = append(got, m.names()...)
	}
	if len(got) != len(objects) || len(slices.Compact(got)) != len(objects) {
		t.Errorf("%d nodes, want %d", len(got), len(objects))
	}
	changed := slices.Clone(objects[1:])
	changed[4] = zone("n-0005", "other")
	cluster.set(append(changed, zone("new", "z"))...)
	m := next[nodes](b, eventNodes)
	if m.Reset || !m.Complete {
		t.Errorf("reset %v, complete %v", m.Reset, m.Complete)
	}
	if diff := cmp.Diff([]string{"n-0005", "new"}, m.names()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"n-0000"}, m.Removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}

// TestNoNodes: an empty cluster is one message.
func TestNoNodes(t *testing.T) {
	t.Parallel()
	r := open(t, newSource([]snapshot.Object{builders.MakePod("p").Obj()}...), answers{pods: func(snapshot.Name) (*v1alpha1.PodReport, error) { return nil, errors.New("none") }})
	if diff := cmp.Diff(nodes{Reset: true, Complete: true, Nodes: []node{}, Removed: []string{}}, next[nodes](r.connect(), eventNodes)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestSlowStream: a stream that does not send has the names of what changed, and sends the newest of each once.
func TestSlowStream(t *testing.T) {
	t.Parallel()
	b := newBoard()
	set := func(zones ...string) {
		all := map[string]*node{}
		for i, zone := range zones {
			name := fmt.Sprint("n", i)
			all[name] = &node{Name: name, Zone: zone}
		}
		b.setNodes(all)
		b.set(eventSummary, len(zones))
	}
	text := func(s *stream) (all []string) {
		for _, m := range b.next(s) {
			all = append(all, m.event+" "+string(m.data))
		}
		return all
	}
	node := func(name, zone string) string {
		return fmt.Sprintf(`{"name":%q,"zone":%q,"state":"","disks":null}`, name, zone)
	}
	message := func(reset bool, nodes, removed string) string {
		return fmt.Sprintf(`nodes {"reset":%v,"complete":true,"nodes":[%s],"removed":[%s]}`, reset, nodes, removed)
	}
	slow := b.open()
	if got := text(slow); got != nil {
		t.Errorf("before there is anything: %q", got)
	}
	set("a", "a")
	fast := b.open()
	for name, s := range map[string]*stream{"slow": slow, "fast": fast} {
		if diff := cmp.Diff([]string{"summary 2", message(true, node("n0", "a")+","+node("n1", "a"), "")}, text(s)); diff != "" {
			t.Errorf("%s, first (-want +got):\n%s", name, diff)
		}
	}
	for i := range 100 {
		set("a", fmt.Sprint(i))
		if diff := cmp.Diff([]string{message(false, node("n1", fmt.Sprint(i)), "")}, text(fast)); diff != "" {
			t.Fatalf("fast (-want +got):\n%s", diff)
		}
	}
	if len(slow.nodes) != 1 || len(slow.events) != 0 {
		t.Errorf("the slow one has %v and %v", slow.nodes, slow.events)
	}
	set("b")
	if diff := cmp.Diff([]string{"summary 1", message(false, node("n0", "b"), `"n1"`)}, text(slow)); diff != "" {
		t.Errorf("slow (-want +got):\n%s", diff)
	}
	set("b")
	if got := text(slow); got != nil {
		t.Errorf("nothing changed: %q", got)
	}
	b.close(slow)
	set("c")
	if len(slow.nodes) > 0 || len(fast.nodes) != 2 {
		t.Errorf("a stream that is closed has %v, the other %v", slow.nodes, fast.nodes)
	}
}

// TestSlowBrowser: a browser that does not read delays no other.
func TestSlowBrowser(t *testing.T) {
	t.Parallel()
	objects := func(zone string) (all []snapshot.Object) {
		for i := range 500 {
			all = append(all, builders.MakeNode(fmt.Sprint("n", i)).Zone(zone+strings.Repeat("x", 8<<10)).Obj())
		}
		return all
	}
	cluster := newSource(objects("first")...)
	r := open(t, cluster, answers{})
	slow, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.host)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if _, err := fmt.Fprintf(slow, "GET /events HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n\r\n", r.host, r.cookie); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Read(make([]byte, 1)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	fast := r.connect()
	for i := range 5 {
		zone := fmt.Sprint("zone-", i, "-")
		cluster.set(objects(zone)...)
		for seen := map[string]bool{}; len(seen) < 500; {
			for _, n := range next[nodes](fast, eventNodes).Nodes {
				if strings.HasPrefix(n.Zone, zone) {
					seen[n.Name] = true
				}
			}
		}
	}
}

// TestWaiting: the pods come at once, then with their sentences; those of an earlier snapshot stay until there are new
// ones.
func TestWaiting(t *testing.T) {
	t.Parallel()
	waiter := func(name string) *corev1.Pod { return builders.MakePod(name).Namespace("ns").Obj() }
	proceed := make(chan string)
	cluster := newSource(waiter("a"))
	r := open(t, cluster, answers{pods: func(name snapshot.Name) (*v1alpha1.PodReport, error) {
		sentence := <-proceed
		if sentence == "" {
			return nil, errors.New("unknown scheduler")
		}
		changes := make([]v1alpha1.PodChange, 5)
		reasons := []v1alpha1.PodReason{{Link: "x"}, {}, {Link: "y"}}
		return &v1alpha1.PodReport{State: v1alpha1.PodUnschedulable, Sentence: sentence, Changes: changes, Everywhere: reasons, Groups: []v1alpha1.NodeGroup{{Reasons: reasons}}}, nil
	}})
	waits := func(sentence string) pod {
		p := podOf(v1alpha1.WaitingPod{Namespace: "ns", Name: "a"}, nil)
		if sentence != "" {
			p.Sentence, p.State, p.Changes, p.Links = sentence, v1alpha1.PodUnschedulable, make([]v1alpha1.PodChange, maxChanges), []string{"x", "y"}
		}
		return p
	}
	b := r.connect()
	expect := func(what string, want pods) {
		t.Helper()
		if diff := cmp.Diff(want, next[pods](b, eventWaiting)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("at first", pods{Pods: []pod{waits("")}, Pending: true})
	proceed <- "one"
	expect("explained", pods{Pods: []pod{waits("one")}})
	cluster.set(waiter("a"), zone("n", "z"))
	expect("changed", pods{Pods: []pod{waits("one")}, Pending: true})
	proceed <- "two"
	expect("explained again", pods{Pods: []pod{waits("two")}})
	cluster.set(waiter("a"))
	expect("changed again", pods{Pods: []pod{waits("two")}, Pending: true})
	proceed <- ""
	expect("not explained", pods{Pods: []pod{waits("")}})
	cluster.set(zone("n", "z"))
	expect("placed", pods{Pods: []pod{}})
}

// TestManyWaiting: the oldest are explained, some more are listed, and the others counted.
func TestManyWaiting(t *testing.T) {
	t.Parallel()
	w := newWaiting(newBoard(), answers{pods: func(name snapshot.Name) (*v1alpha1.PodReport, error) {
		return &v1alpha1.PodReport{Sentence: name.Name}, nil
	}})
	all := make([]v1alpha1.WaitingPod, maxWaiting+7)
	for i := range all {
		all[i].Name = fmt.Sprint("p", i)
	}
	w.list(snapshot.Build(), all)
	w.explain(t.Context())
	var got pods
	if err := json.Unmarshal(w.board.messages[eventWaiting], &got); err != nil {
		t.Fatal(err)
	}
	explained := 0
	for i, p := range got.Pods {
		if p.Sentence != "" {
			explained++
			if i >= maxExplained || p.Sentence != fmt.Sprint("p", i) {
				t.Errorf("pod %d: %s", i, p.Sentence)
			}
		}
	}
	if explained != maxExplained || len(got.Pods) != maxWaiting || got.More != 7 || got.Pending {
		t.Errorf("%d are explained of %d, and %d more; pending: %v", explained, len(got.Pods), got.More, got.Pending)
	}
}

// BenchmarkSetNodes: 3,000 nodes with 24 disks each, one of which changed.
func BenchmarkSetNodes(b *testing.B) {
	all := map[string]*node{}
	for i := range 3000 {
		n := &node{Name: fmt.Sprintf("node-%04d", i), Zone: "zone"}
		for d := range 24 {
			n.Disks = append(n.Disks, v1alpha1.StorageMapDisk{
				Node: n.Name, Class: "local-disks", Name: fmt.Sprint("disk-", d), Path: fmt.Sprint("/mnt/local-disks/disk-", d), Bytes: 1 << 40,
				State: "Bound", Use: v1alpha1.UseBound, Volume: fmt.Sprintf("local-pv-%d-%d", i, d), Claim: fmt.Sprintf("ns/data-%d-%d", i, d),
			})
		}
		all[n.Name] = n
	}
	board := newBoard()
	board.open()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		all["node-0000"].Disks[0].Bytes = int64(i)
		board.setNodes(all)
	}
}
