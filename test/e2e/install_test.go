// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/e2e/frame"
)

// TestManifests follows docs/install.md for kubectl: installed on an
// empty cluster, upgraded over a running workload, and uninstalled.
func TestManifests(t *testing.T) {
	frame.Parallel(t)
	s := newEmpty(t)
	s.kubectl("apply", "--server-side", "-k", s.overlay("dev"))
	s.rolledOut("stowage.dev", "dev")
	s.useVolume("early", 3)

	before := s.look("early")
	s.kubectl("apply", "--server-side", "-k", s.overlay("dev2"))
	s.rolledOut("stowage.dev", "dev2")
	s.same(before, s.look("early"))
	s.useVolume("late", 2)

	before = s.look("early", "late")
	s.kubectl("apply", "-k", manifests+"uninstall")
	s.kubectl("-n", "stowage-system", "wait", "--for=jsonpath={.status.conditions[0].type}", "job/stowage-release", "--timeout=15m")
	s.released(s.kubectl("-n", "stowage-system", "logs", "job/stowage-release"))
	s.kubectl("delete", "-k", manifests+"uninstall")
	s.kubectl("delete", "--ignore-not-found", "-k", manifests+"overlays/default")
	s.same(before, s.look("early", "late"))
	s.left("Lease stowage-scheduler")
	s.kubectl("-n", "kube-system", "delete", "lease", "stowage-scheduler")
	s.left()
	s.removeAll("early", "late")
}

// TestHelm does the same by the chart.
func TestHelm(t *testing.T) {
	frame.Parallel(t)
	path := buildHelm(t)
	s := newEmpty(t)
	helm := newHelm(s, path)
	s.kubectl("create", "namespace", "stowage-system")
	s.kubectl("label", "namespace", "stowage-system", "pod-security.kubernetes.io/enforce=privileged")
	helm("install", "stowage", manifests+"charts/stowage")
	s.rolledOut("stowage.dev", "dev")
	s.useVolume("early", 3)

	before := s.look("early")
	helm("upgrade", "stowage", manifests+"charts/stowage", "--set", "image.tag=dev2")
	s.rolledOut("stowage.dev", "dev2")
	s.same(before, s.look("early"))
	s.useVolume("late", 2)

	before = s.look("early", "late")
	s.released(helm("uninstall", "stowage", "--timeout", "20m"))
	s.same(before, s.look("early", "late"))
	s.left("CustomResourceDefinition localdiskreports.stowage.dev", "CustomResourceDefinition localdisks.stowage.dev", "CustomResourceDefinition localdisktombstones.stowage.dev", "Lease stowage-controller", "Lease stowage-scheduler",
		"LocalDiskReport one", "Namespace stowage-system")
	s.kubectl("delete", "crd", "localdiskreports.stowage.dev", "localdisks.stowage.dev", "localdisktombstones.stowage.dev")
	s.kubectl("delete", "namespace", "stowage-system")
	s.left()
	s.removeAll("early", "late")
}

// left compares the objects that Stowage has left behind with want. It waits for those that are
// garbage collected with their owner.
func (s *empty) left(want ...string) {
	s.T.Helper()
	for _, o := range s.ours() {
		if len(o.GetOwnerReferences()) > 0 || o.GetDeletionTimestamp() != nil {
			s.waitDeleted(o)
		}
	}
	var got []string
	for _, o := range s.ours() {
		got = append(got, o.GetKind()+" "+o.GetName())
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.T.Errorf("left behind (-want +got):\n%s", diff)
	}
}
