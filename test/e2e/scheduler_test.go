// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
)

// TestSchedulerChosen: beside kube-scheduler, a pod chooses ours by name. Two pods of a kind,
// at the same time, are placed by the scheduler that each names, on the node whose volumes are
// theirs, and keep to their own.
func TestSchedulerChosen(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	for _, name := range []string{"a", "b"} {
		plug(e, "one", realnode.Disk{Kind: realnode.Ext4, Path: slot("chosen", name), Size: 16 << 20})
	}
	for _, name := range []string{"a", "b"} {
		published(e, "one", slot("chosen", name))
	}
	pods := map[string]string{"theirs": corev1.DefaultSchedulerName, "ours": ours}
	for name, scheduler := range pods {
		e.Create(e.Claim(name, "chosen"), by(scheduler, e.Shell(name, "echo $HOSTNAME >>/data/"+name+"/word; cat /data/"+name+"/word", name)))
	}
	for name, scheduler := range pods {
		event := e.WaitEvent(e.Namespace, name, "Scheduled", "to one")
		if got := event.ReportingController + event.Source.Component; got != scheduler {
			t.Errorf("pod %s was placed by %s, want %s", name, got, scheduler)
		}
		if got, node := finished(e, name); got != name+"\n" || node != "one" {
			t.Errorf("pod %s on node %s reads %q, want its own name alone, on one", name, node, got)
		}
	}
	if first, second := bound(e, "theirs"), bound(e, "ours"); first.Spec.VolumeName == second.Spec.VolumeName {
		t.Errorf("both claims have volume %s", first.Spec.VolumeName)
	}
}

// writeRead has a pod without a schedulerName write to two volumes that only together can be
// had, and another one read them.
func writeRead(e *frame.Env, class, node string) {
	e.T.Helper()
	large := e.Claim("large", class)
	large.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("30Mi")
	e.Create(e.Claim("any", class), large)
	if _, on := finish(e, e.Shell("writer", "echo any >/data/any/word; echo large >/data/large/word; sync", "any", "large")); on != node {
		e.T.Errorf("the writer ran on node %s, want %s, where the volumes are", on, node)
	}
	if got, on := finish(e, e.Shell("reader", "cat /data/any/word /data/large/word", "any", "large")); got != "any\nlarge\n" || on != node {
		e.T.Errorf("the reader on node %s reads %q, want both words, on %s", on, got, node)
	}
}
