// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/localdisk/provisioner"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// held is a volume that is being deleted, with our finalizer but without its provisioner.
func held(t *testing.T, n *node.Node, name string) *corev1.PersistentVolume {
	t.Helper()
	n.Delete(n.Volume(n.Files, name))
	return n.WaitVolume(n.Files, name, "being deleted", func(v *corev1.PersistentVolume) bool { return v != nil && v.DeletionTimestamp != nil })
}

// askFor is the entry by which a provisioner requests the cleaning of a volume's disk.
func askFor(volume *corev1.PersistentVolume) stowage.Entry {
	path := localpv.PathOf(volume)
	return stowage.Entry{
		Class: volume.Spec.StorageClassName, Name: path[strings.LastIndex(path, "/")+1:], Path: path, State: stowage.EntryCleaning, Volume: volume.Name,
		Cleaning: &stowage.Cleaning{Request: &stowage.CleaningRequest{
			Attempt: "0123456789abcdef", VolumeUID: string(volume.UID), Identity: volume.Annotations[wellknown.DiskIdentityAnnotation],
		}},
	}
}

// attacker returns a client with the token of a node's provisioner.
func attacker(t *testing.T, n *node.Node) provisioner.Reports {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", n.Path("kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	reports, err := diskreports.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

// TestForgedRequests: the token of a node's provisioner can only cause cleanings that this
// provisioner may request anyway.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	env := fixture.New(t)
	a, b := node.New(t, env, "a"), node.New(t, env, "b")
	share(t, a)
	share(t, b)
	a.Tmpfs("free", "1m")
	a.Tmpfs("gone", "1m")
	b.Tmpfs("theirs", "1m")
	a.Start()
	b.Start()
	free := a.WaitPhase(a.Files, "free", corev1.VolumeAvailable)
	a.WaitPhase(a.Files, "gone", corev1.VolumeAvailable)
	b.WaitPhase(b.Files, "theirs", corev1.VolumeAvailable)
	a.WaitEntry(a.Files, "gone", stowage.EntryAvailable, "")
	a.Kill()
	b.Kill()
	gone, theirs := held(t, a, "gone"), held(t, b, "theirs")

	forge := func(volume *corev1.PersistentVolume, change func(*stowage.Entry)) stowage.Entry {
		entry := askFor(volume)
		change(&entry)
		return entry
	}
	forged := map[string]struct {
		entry stowage.Entry
		want  string
	}{
		"a volume that is free":               {askFor(free), "VolumeNotReleased"},
		"another node's volume":               {askFor(theirs), "NoSuchVolume"},
		"no volume":                           {forge(gone, func(e *stowage.Entry) { e.Volume, e.Path = "", "/1" }), "NoSuchVolume"},
		"an earlier volume":                   {forge(gone, func(e *stowage.Entry) { e.Cleaning.Request.VolumeUID, e.Path = "before", "/2" }), "NoSuchVolume"},
		"another disk":                        {forge(gone, func(e *stowage.Entry) { e.Cleaning.Request.Identity = askFor(free).Cleaning.Request.Identity }), "RequestMismatch"},
		"another path":                        {forge(gone, func(e *stowage.Entry) { e.Path = a.PathOf(a.Files, "../../etc") + "/.." }), "RequestMismatch"},
		"a name that leads to another folder": {forge(gone, func(e *stowage.Entry) { e.Name, e.Path = "../../etc", "/3" }), "RequestMismatch"},
		"another class":                       {forge(gone, func(e *stowage.Entry) { e.Class, e.Path = a.Blocks, "/4" }), "RequestMismatch"},
	}
	want := map[string]string{}
	reports := attacker(t, a)
	report, err := reports.Get(env.Context(), a.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	report.Status.Entries = nil
	for _, one := range forged {
		report.Status.Entries = append(report.Status.Entries, one.entry)
		want[one.entry.Path] = "Refused " + one.want
	}
	if _, err := reports.UpdateStatus(env.Context(), report, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	a.WaitReport("answered", func(r *stowage.LocalDiskReport) bool {
		for _, job := range r.Status.Jobs {
			got[job.Path] = fmt.Sprintf("%s %s", job.State, job.Reason)
		}
		return len(got) == len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, n := range []*node.Node{a, b} {
		if names := made(t, n); len(names) > 0 {
			t.Errorf("node %s has Jobs: %q", n.Name, names)
		}
	}
	cannotAnswer(t, reports, a.Name)
}

// cannotAnswer checks that the provisioner cannot write the controller's answers, and that the
// name of an attempt is restricted to a name.
func cannotAnswer(t *testing.T, reports provisioner.Reports, name string) {
	t.Helper()
	for what, lie := range map[string]struct {
		change  func(*stowage.LocalDiskReportStatus)
		refusal func(error) bool
	}{
		"a provisioner answers itself":  {func(s *stowage.LocalDiskReportStatus) { s.Jobs[0].State = stowage.CleaningJobSucceeded }, apierrors.IsForbidden},
		"a provisioner removes answers": {func(s *stowage.LocalDiskReportStatus) { s.Jobs = nil }, apierrors.IsForbidden},
		"an attempt that is a path":     {func(s *stowage.LocalDiskReportStatus) { s.Entries[0].Cleaning.Request.Attempt = "../../../tmp/123" }, apierrors.IsInvalid},
	} {
		if err := writeReport(t, reports, name, lie.change); !lie.refusal(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// writeReport writes a provisioner's report, and returns why that was refused. A report that
// the controller has written concurrently is a conflict before validation.
func writeReport(t *testing.T, reports provisioner.Reports, name string, change func(*stowage.LocalDiskReportStatus)) error {
	t.Helper()
	for {
		report, err := reports.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(&report.Status)
		if _, err := reports.UpdateStatus(t.Context(), report, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}
