// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// lossDelay is the classes' delay.
const lossDelay = 5 * time.Second

// losable are the classes of volumes whose nodes or disks are lost.
var losable = []install.Class{
	{Name: "released", Settings: map[string]any{"hostDir": slot("released")},
		Annotations: map[string]string{"stowage.dev/node-loss": "Release", "stowage.dev/node-loss-delay": lossDelay.String()}},
	{Name: "kept", Settings: map[string]any{"hostDir": slot("kept")},
		Annotations: map[string]string{"stowage.dev/node-loss-delay": lossDelay.String()}},
}

// wholeAgain is how long a StatefulSet may be broken after its Node was deleted: garbage
// collection of the pod alone takes up to a minute. The delay of the class is less.
const wholeAgain = 90 * time.Second

// TestNodeLost: the node of a StatefulSet's volume is lost and its Node is deleted. The claim is
// released, and the set is complete again on another node without manual action. When the node
// comes back its disk is cleaned before it is published. It does not run in parallel, for it is
// timed.
func TestNodeLost(t *testing.T) {
	l := newLosable(t, "released")
	l.kill()
	deleted := time.Now()
	l.deleteNode()
	pod := l.e.WaitPod("set-0", "another one, and ready", func(p *corev1.Pod) bool { return p.UID != l.pod.UID && frame.Ready(p) })
	if took := time.Since(deleted); took > wholeAgain {
		t.Errorf("the set is whole again %s after its Node was deleted, want %s at most", took, wholeAgain)
	} else {
		t.Logf("the set is whole again %s after its Node was deleted", took.Round(time.Second))
	}
	if pod.Spec.NodeName == l.node.Name {
		t.Errorf("the pod runs on node %s, which is deleted", pod.Spec.NodeName)
	}
	if claim := bound(l.e, "data-set-0"); claim.UID == l.claim.UID {
		t.Error("the claim is the one of the lost volume")
	}
	if word := l.e.Exec("set-0", "cat", "/data/data/word"); word == l.word {
		t.Errorf("the new pod reads %q, which the old one wrote on the lost node", word)
	}

	l.e.Do(l.node.Start(l.e.Context))
	published(l.e, l.node.Name, l.path, l.volume)
	if got := on(l.e, l.node, "ls -A "+l.path); got != "lost+found\n" {
		t.Errorf("the disk of the node that came back is offered with %q on it", got)
	}
}

// TestNodeLostAndKept: with policy Keep the claim waits, an event has the reason, and so does the
// set's next pod, for longer than the delay. When the node comes back no data is lost.
func TestNodeLostAndKept(t *testing.T) {
	site.Parallel(t)
	l := newLosable(t, "kept")
	l.kill()
	deleted := time.Now()
	l.deleteNode()
	l.e.WaitEvent(l.e.Namespace, "data-set-0", "VolumeLost", "the claim is kept and waits for the volume because stowage.dev/node-loss is Keep")
	// With policy Release the claim would be deleted by now: the set's next pod is created after
	// the delay, when the old one was collected.
	pod := l.e.WaitPod("set-0", "another one, and without a node", func(p *corev1.Pod) bool {
		return p.UID != l.pod.UID && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		})
	})
	if after := pod.CreationTimestamp.Sub(deleted); after < lossDelay {
		t.Errorf("the pod was recreated %s after its Node was deleted, sooner than a claim would be released", after)
	}
	if claim := bound(l.e, "data-set-0"); claim.UID != l.claim.UID {
		t.Fatal("the claim is another one")
	}
	l.e.Do(l.node.Start(l.e.Context))
	l.waitRestarted()
	if claim := bound(l.e, "data-set-0"); claim.UID != l.claim.UID || claim.Spec.VolumeName != l.volume.Name {
		t.Errorf("claim %s has volume %s, want claim %s and volume %s still", claim.UID, claim.Spec.VolumeName, l.claim.UID, l.volume.Name)
	}
	if word := l.e.Exec("set-0", "cat", "/data/data/word"); word != l.word {
		t.Errorf("the pod reads %q, want %q, which it wrote before", word, l.word)
	}
}

// TestDiskVanishes: a disk is removed from a running node. The claim is released, the
// set is complete again on another node, and the disk is cleaned when it is attached again.
func TestDiskVanishes(t *testing.T) {
	site.Parallel(t)
	l := newLosable(t, "released")
	l.e.Do(l.node.UnmountDisk(l.e.Context, l.path))
	pod := l.e.WaitPod("set-0", "another one, and ready", func(p *corev1.Pod) bool { return p.UID != l.pod.UID && frame.Ready(p) })
	if pod.Spec.NodeName == l.node.Name {
		t.Errorf("the pod runs on node %s, whose disk was removed", pod.Spec.NodeName)
	}
	if word := l.e.Exec("set-0", "cat", "/data/data/word"); word == l.word {
		t.Errorf("the new pod reads %q, which the old one wrote on the lost disk", word)
	}
	l.e.Do(l.node.MountDisk(l.e.Context, l.path))
	published(l.e, l.node.Name, l.path, l.volume)
	if got := on(l.e, l.node, "ls -A "+l.path); got != "lost+found\n" {
		t.Errorf("the disk that came back is offered with %q on it", got)
	}
}

// TestNodeReinstalled: a node is reinstalled under its old name, with a blank disk at the path of
// the volume. The claim keeps its volume, an event reports that its disk is another one, and the
// blank disk is not published as a volume, to which a claim could be bound unnoticed. The pod does
// not start on the blank disk, with a reason. With the old disk, which must be accepted since
// UUIDs of file systems are valid on one machine only, it runs and finds its data.
func TestNodeReinstalled(t *testing.T) {
	site.Parallel(t)
	l := newLosable(t, "kept")
	old := l.reinstall()
	l.e.WaitEvent(metav1.NamespaceDefault, l.volume.Name, "Replaced", "")
	l.e.WaitPV(l.volume.Name, "marked", func(pv *corev1.PersistentVolume) bool { return pv.Annotations[wellknown.DiskAnnotation] == "Replaced" })
	l.e.Kubectl("uncordon", l.node.Name)
	refused(l.e, "set-0", match.DiskReplaced.String())
	second := by(ours, l.e.Shell("second", "exec sleep 1000000"))
	second.Spec.Volumes = append(second.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-set-0"},
	}})
	l.e.Create(second)
	refused(l.e, "second", match.DiskReplaced.String())
	remove(l.e, "second")

	if claim := bound(l.e, "data-set-0"); claim.UID != l.claim.UID || claim.Spec.VolumeName != l.volume.Name {
		t.Errorf("claim %s has volume %s, want claim %s and volume %s still", claim.UID, claim.Spec.VolumeName, l.claim.UID, l.volume.Name)
	}
	volumes, err := l.e.Client.CoreV1().PersistentVolumes().List(l.e.Context, metav1.ListOptions{})
	l.e.Do(err)
	for _, pv := range volumes.Items {
		if at(&pv, l.node.Name, l.path) && pv.UID != l.volume.UID {
			t.Errorf("volume %s was made of the blank disk, beside volume %s of the lost one", pv.Name, l.volume.Name)
		}
	}
	if got := on(l.e, l.node, "ls -A "+l.path); got != "lost+found\n" {
		t.Errorf("%q was written to the blank disk", got)
	}

	l.e.Do(l.node.UnmountDisk(l.e.Context, l.path))
	old()
	l.e.Do(l.node.MountDisk(l.e.Context, l.path))
	l.acceptDisk()
	l.waitRestarted()
	if word := l.e.Exec("set-0", "cat", "/data/data/word"); word != l.word {
		t.Errorf("the pod reads %q, want %q, which it wrote before", word, l.word)
	}
}

// reinstall wipes the node and gives it a blank disk, cordoned until its provisioner has scanned,
// and deletes the pod on it. Call put while the disk is not mounted: it restores the old disk.
func (l *lost) reinstall() (put func()) {
	l.e.T.Helper()
	device := strings.TrimSpace(on(l.e, l.node, "findmnt --noheadings --output SOURCE "+l.path))
	l.e.Kubectl("cordon", l.node.Name)
	l.kill()
	content, err := os.ReadFile(device)
	l.e.Do(err)
	l.e.Kubectl("delete", "pod", "set-0", "--force", "--grace-period=0")
	l.e.Do(l.node.RemoveDisk(l.e.Context, l.path))
	l.e.Do(l.node.Wipe())
	blank, err := l.node.AddDisk(l.e.Context, realnode.Disk{Kind: realnode.Ext4, Path: l.path, Size: 16 << 20})
	l.e.Do(err)
	l.e.Do(l.node.Start(l.e.Context))
	l.e.Do(install.MakeFolders(l.e.Context, l.node, classes))
	return func() {
		f, err := os.OpenFile(blank, os.O_WRONLY, 0)
		l.e.Do(err)
		_, err = f.Write(content)
		l.e.Do(errors.Join(err, f.Sync(), f.Close()))
	}
}

// acceptDisk accepts the disk as the volume's, on another machine, when it exists.
func (l *lost) acceptDisk() {
	l.e.T.Helper()
	name, former, _ := strings.Cut(l.volume.Annotations[wellknown.DiskIdentityAnnotation], "@")
	reports, err := diskreports.NewClient(l.e.Cluster.RESTConfig())
	l.e.Do(err)
	var identity string
	frame.Wait(l.e, reports, stowage.PageName(l.node.Name, 1), "that shows the disk", func(r *stowage.LocalDiskReport) bool {
		for _, entry := range r.Status.Entries {
			if entry.Path == l.path && strings.HasPrefix(entry.Identity, name+"@") && entry.Identity != name+"@"+former {
				identity = entry.Identity
			}
		}
		return identity != ""
	})
	l.e.Kubectl("annotate", "persistentvolume", l.volume.Name, wellknown.SameDiskAnnotation+"="+identity)
}

// lost is a StatefulSet of one replica, and what of it will be lost: it could run on two nodes,
// each with a disk at the same path.
type lost struct {
	e      *frame.Env
	path   string
	node   *realnode.Node
	pod    *corev1.Pod
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
	// word is the data that the pod wrote into its volume.
	word string
	// killed is when the node was killed.
	killed metav1.Time
}

func newLosable(t *testing.T, class string) *lost {
	t.Helper()
	l := &lost{e: site.New(t)}
	l.path = slot(class, l.e.Namespace)
	disk := realnode.Disk{Kind: realnode.Ext4, Path: l.path, Size: 16 << 20}
	spec := func(short string) realnode.NodeSpec {
		return realnode.NodeSpec{Name: short, Labels: map[string]string{"test": l.e.Namespace}, Disks: []realnode.Disk{disk}}
	}
	nodes := l.e.AddNodes(spec("a"), spec("b"))
	for _, n := range nodes {
		l.e.Do(install.MakeFolders(l.e.Context, n, classes))
		published(l.e, n.Name, l.path)
	}
	l.createSet(class)
	l.pod = l.e.WaitPod("set-0", "ready", frame.Ready)
	for _, n := range nodes {
		if n.Name == l.pod.Spec.NodeName {
			l.node = n
		}
	}
	if l.node == nil {
		t.Fatalf("the pod runs on node %s, want one of the test", l.pod.Spec.NodeName)
	}
	l.claim = bound(l.e, "data-set-0")
	l.volume = l.e.WaitPV(l.claim.Spec.VolumeName, "there", func(*corev1.PersistentVolume) bool { return true })
	l.word = l.e.Exec("set-0", "cat", "/data/data/word")
	return l
}

// createSet makes the set, whose pod writes its own UID into an empty volume.
func (l *lost) createSet(class string) {
	l.e.T.Helper()
	pod := by(ours, l.e.Shell("", "[ -e /data/data/word ] || echo $UID >/data/data/word; sync; exec sleep 1000000"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.NodeSelector = map[string]string{"test": l.e.Namespace}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: "/data/data"})
	uid := corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}
	c.Env = append(c.Env, corev1.EnvVar{Name: "UID", ValueFrom: &uid})
	labels := map[string]string{"app": "set"}
	o := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set", Namespace: l.e.Namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*l.e.Claim("data", class)},
		},
	}
	_, err := l.e.Client.AppsV1().StatefulSets(l.e.Namespace).Create(l.e.Context, o, metav1.CreateOptions{})
	l.e.Do(err)
}

// kill cuts the power of the node.
func (l *lost) kill() {
	l.e.T.Helper()
	l.killed = metav1.Now()
	l.e.Do(l.node.Kill())
}

// deleteNode deletes the Node, as its administrator or the cloud's controller does.
func (l *lost) deleteNode() {
	l.e.T.Helper()
	l.e.Do(l.e.Client.CoreV1().Nodes().Delete(l.e.Context, l.node.Name, metav1.DeleteOptions{}))
}

// waitRestarted waits until the pod is ready and has started since the node was killed.
func (l *lost) waitRestarted() {
	l.e.T.Helper()
	l.e.WaitPod("set-0", "ready again", func(p *corev1.Pod) bool {
		if !frame.Ready(p) || len(p.Status.ContainerStatuses) == 0 {
			return false
		}
		running := p.Status.ContainerStatuses[0].State.Running
		return running != nil && l.killed.Before(&running.StartedAt)
	})
}
