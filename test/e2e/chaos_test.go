// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/cluster/realnode/layout"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// chaosTimeout is for all rounds together.
var chaosTimeout = time.Duration(campaign.Scale(15, 40)) * deadline.Wait()

const (
	// chaosFolder is where the nodes have their disks.
	chaosFolder = "/mnt/disks/chaos"
	// betweenKills is how many more pods have run when the next part is killed; some of them are
	// made after the kill.
	betweenKills = rolling + 3
)

// chaosNodes are named differently from other tests' nodes in leases and logs.
var chaosNodes = []string{"one", "two", "three"}

// chaosDisks are those of each node: kubelet formats the block devices.
var chaosDisks = []realnode.Disk{
	{Kind: realnode.Ext4, Path: chaosFolder + "/file-system", Size: 64 << 20}, // enough for the files that check makes
	{Kind: realnode.Ext4, Path: chaosFolder + "/other", Size: 64 << 20},
	{Kind: realnode.Tmpfs, Path: chaosFolder + "/memory", Size: 16 << 20},
	{Kind: realnode.Block, Path: chaosFolder + "/device", Size: 64 << 20},
	{Kind: realnode.Block, Path: chaosFolder + "/raw", Size: 64 << 20},
}

// TestChaos: while pods with volumes are created and deleted, each component that acts on volumes
// is killed in turn and restarted, as its supervisor would; in full strength four times more, each
// time in another order. All pods run in the end and have their data, no volume is bound twice or
// published dirty, no claim is lost, and all disks are available in the end.
func TestChaos(t *testing.T) {
	random := rand.New(rand.NewPCG(campaign.Begin(t), 0))
	e := newChaos(t)
	l := newLoad(e)
	l.wait("the volumes of all disks are available", l.allFree)
	l.begin()
	l.wait("the first pods run", func() bool { return l.ran >= rolling })
	parts := chaosParts(e, l)
	for round := range campaign.Scale(1, 5) {
		if round > 0 {
			random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		}
		for _, part := range parts {
			begun, ran := time.Now(), l.count()
			part.kill()
			l.wait("more pods have run after "+part.name+" was killed", func() bool { return l.ran >= ran+betweenKills })
			t.Logf("killed %s; %d more pods have run %s later", part.name, betweenKills, time.Since(begun).Round(time.Second))
		}
	}
	l.stay()
	l.wait("all of the last pods run", l.allRun)
	for name, uid := range l.running() {
		owners := e.Exec(name, "sh", "-c", "cat /data/*/owner")
		if owners == "" || strings.ReplaceAll(owners, uid+"\n", "") != "" {
			t.Errorf("pod %s reads %q in its volumes, want its own UID, %s", name, owners, uid)
		}
	}
	l.end()
	l.wait("all disks are available again", l.allFree)
	for _, node := range chaosNodes {
		blank(e, e.Cluster.Node(node))
	}
	t.Logf("%d pods have run", l.count())
}

// chaosPart is a part of the cluster that TestChaos kills.
type chaosPart struct {
	name string
	kill func() // returns when the part runs again
}

func chaosParts(e *frame.Env, l *load) []chaosPart {
	return []chaosPart{
		{"kubelet of node one", func() { restart(e, e.Cluster.Node("one").Kubelet()) }},
		{"containerd of node two", func() { restart(e, e.Cluster.Node("two").Containerd()) }},
		{"the scheduler that leads", func() { crash(e, leader(e, "kube-system", "stowage-scheduler")) }},
		{"the provisioner of node three, which is removing files", func() { crashCleaning(e, provisionerOf(e, "three")) }},
		{"the controller that leads", func() { crash(e, leader(e, install.Namespace, "stowage-controller")) }},
		{"kube-controller-manager", func() { restart(e, e.Cluster.ControllerManager()) }},
	}
}

// newChaos starts the cluster of the test.
func newChaos(t *testing.T) *frame.Env {
	t.Helper()
	config := install.Config{
		Classes: []install.Class{{Name: "chaos", Settings: map[string]any{"hostDir": chaosFolder}}},
		// A node that restarts slowly must not lose its pods.
		Cluster: func(c *realnode.Config) {
			c.Cluster.ControllerManager.ExtraArgs = []string{"--node-monitor-grace-period=1m"}
		},
	}
	for _, name := range chaosNodes {
		config.Nodes = append(config.Nodes, frame.Node(name, chaosDisks...))
	}
	o, err := install.Options(config)()
	if err != nil {
		t.Fatal(err)
	}
	e := frame.NewOn(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), chaosTimeout)
	t.Cleanup(cancel)
	e.Context = ctx
	t.Cleanup(func() { logChaos(e) })
	return e
}

// restart kills a part and starts it again, as init does.
func restart(e *frame.Env, part *cluster.Component) {
	e.T.Helper()
	e.Do(part.Restart(e.Context))
}

// leader is the pod that holds a lease.
func leader(e *frame.Env, namespace, lease string) *corev1.Pod {
	e.T.Helper()
	held, err := e.Client.CoordinationV1().Leases(namespace).Get(e.Context, lease, metav1.GetOptions{})
	e.Do(err)
	if held.Spec.HolderIdentity == nil {
		e.T.Fatalf("lease %s has no holder", lease)
	}
	name, _, _ := strings.Cut(*held.Spec.HolderIdentity, "_")
	pod, err := e.Client.CoreV1().Pods(namespace).Get(e.Context, name, metav1.GetOptions{})
	e.Do(err)
	return pod
}

// provisionerOf is the pod of a node's provisioner.
func provisionerOf(e *frame.Env, node string) *corev1.Pod {
	e.T.Helper()
	pods, err := e.Client.CoreV1().Pods(install.Namespace).List(e.Context, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=stowage-provisioner", FieldSelector: "spec.nodeName=" + node,
	})
	e.Do(err)
	if len(pods.Items) != 1 {
		e.T.Fatalf("node %s has %d provisioners, want one", node, len(pods.Items))
	}
	return &pods.Items[0]
}

const ctr = "ctr --address " + layout.Containerd + " --namespace k8s.io tasks "

// crash kills the process of a pod, and returns when kubelet has started it again.
func crash(e *frame.Env, pod *corev1.Pod) {
	e.T.Helper()
	crashBy(e, pod, ctr+"kill --signal SIGKILL $1")
}

// crashCleaning crashes the provisioner of a node as soon as files of check disappear from one of
// the node's file systems. A kill by containerd would take longer than the rest of the clean.
func crashCleaning(e *frame.Env, provisioner *corev1.Pod) {
	e.T.Helper()
	crashBy(e, provisioner, `
pid=$(`+ctr+`list | awk -v id=$1 '$1 == id { print $2 }')
[ -n "$pid" ] || { echo "container $1 does not run" >&2; exit 1; }
cd `+chaosFolder+` || exit 1
first=0 second=0 third=0
vanish() { now=$(ls $1/many 2>/dev/null | wc -l); [ $now -gt 0 ] && [ $now -lt $2 ]; }
while :; do
	vanish file-system $first && break; first=$now
	vanish other $second && break; second=$now
	vanish memory $third && break; third=$now
done
kill -KILL $pid`)
}

// crashBy runs a script on the pod's node that kills the container with the ID in its argument.
func crashBy(e *frame.Env, pod *corev1.Pod, script string) {
	e.T.Helper()
	before := pod.Status.ContainerStatuses[0].ContainerID
	_, err := e.Cluster.Node(pod.Spec.NodeName).Run(e.Context, nil, "sh", "-c", script, "sh", strings.TrimPrefix(before, "containerd://"))
	e.Do(err)
	frame.Wait(e, e.Client.CoreV1().Pods(pod.Namespace), pod.Name, "running again", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Running != nil && s[0].ContainerID != before
	})
}

// blank checks that all disks of a node are empty.
func blank(e *frame.Env, n *realnode.Node) {
	e.T.Helper()
	for _, d := range chaosDisks {
		look := "find " + d.Path + " -mindepth 1 ! -name lost+found"
		if d.Kind == realnode.Block {
			look = "wipefs " + d.Path
		}
		if found := on(e, n, look); found != "" {
			e.T.Errorf("disk %s of node %s is offered with something on it: %s", d.Path, n.Name, found)
		}
	}
}

// logChaos logs what frame.Env.Dump omits, for a failed test.
func logChaos(e *frame.Env) {
	if !e.T.Failed() {
		return
	}
	e.T.Log(e.Dump())
	ctx, cancel := deadline.Context(context.Background())
	defer cancel()
	var b strings.Builder
	for _, args := range []string{
		"get localdiskreports --output=yaml",
		"logs --namespace=stowage-system --selector=app.kubernetes.io/name=stowage-provisioner --prefix --tail=200",
		"logs --namespace=stowage-system --selector=app.kubernetes.io/name=stowage-controller --prefix --tail=100",
		"logs --namespace=kube-system --selector=app.kubernetes.io/name=stowage-scheduler --prefix --tail=200",
	} {
		out, err := e.Cluster.Kubectl(ctx, strings.Fields(args)...)
		fmt.Fprintf(&b, "kubectl %s\n%s\n", args, out)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	e.T.Log(b.String())
}
