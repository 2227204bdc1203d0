// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// BenchmarkHints is the cost of an event under the scheduling queue's lock while 1,000
// pods wait, 40 of them with a claim whose selector has 20,000 values. All pods have been
// tried before.
func BenchmarkHints(b *testing.B) {
	var tiers []string
	for i := range 20_000 {
		tiers = append(tiers, "tier-"+strconv.Itoa(i))
	}
	w := newTestbed(b, localClass().Obj(), csiClass().Obj(), csiDriver(true), node("a").Obj(), capacity("r", "a", "1Gi").Obj())
	var pods []*v1.Pod
	for i := range 1000 {
		name := strconv.Itoa(i)
		c := claim(name, "2Gi")
		if i%2 > 0 {
			c.Class("csi")
		}
		if i < 40 {
			c.MatchExpression("tier", "In", tiers...)
		}
		w.put(c.Obj())
		pods = append(pods, pod(name, name))
		if _, _, err := w.Cache().Demand(pods[i]); err != nil {
			b.Fatal(err)
		}
	}
	small := func() runtime.Object {
		return volume("v", "a", "1Gi").Phase(v1.VolumeAvailable).Label("tier", "other").Obj()
	}
	for _, event := range []struct {
		name        string
		resource    fwk.EventResource
		action      fwk.ActionType
		before, now runtime.Object
	}{
		{"volume/free", fwk.PersistentVolume, fwk.Add, nil, small()},
		{"volume/touched", fwk.PersistentVolume, fwk.Update, small(), volume("v", "a", "1Gi").Phase(v1.VolumeAvailable).Label("tier", "other").Annotation("a", "b").Obj()},
		{"volume/failed", fwk.PersistentVolume, fwk.Update, small(), volume("v", "a", "1Gi").Phase(v1.VolumeFailed).Label("tier", "other").Obj()},
		{"claim/unselected", fwk.PersistentVolumeClaim, fwk.Update, claim("x", "1Gi").Class("csi").SelectedNode("a").Obj(), claim("x", "1Gi").Class("csi").Obj()},
		{"node/labelled", fwk.Node, fwk.UpdateNodeLabel, node("a").Obj(), node("a").Label("some", "label").Obj()},
		{"capacity/shrank", fwk.CSIStorageCapacity, fwk.Update, capacity("r", "a", "1Gi").Obj(), capacity("r", "a", "512Mi").Obj()},
		{"driver/of-another", fwk.CSIDriver, fwk.Delete, nil, nil},
	} {
		b.Run(event.name, func(b *testing.B) {
			var before, now any
			if event.before != nil {
				w.put(event.before)
				before = w.stored(event.before)
			}
			if event.now != nil {
				w.put(event.now)
				now = w.stored(event.now)
			}
			if event.resource == fwk.CSIDriver {
				other := csiDriver(true)
				other.Name = "other"
				before = other
			}
			hint := w.hint(event.resource, event.action)
			b.ReportAllocs()
			for b.Loop() {
				for _, pod := range pods {
					if got, err := hint(klog.Background(), pod, before, now); got != fwk.QueueSkip || err != nil {
						b.Fatal(got, err)
					}
				}
			}
		})
	}
}
