// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

// own is a registry of these tests: the other tests of this package use the process's.
var own = sync.OnceValue(func() metrics.KubeRegistry {
	r := metrics.NewKubeRegistry()
	r.MustRegister(provisioner.all...)
	r.MustRegister(reference.all...)
	r.CustomMustRegister(disks)
	return r
})

// registry resets and returns the registry.
func registry() metrics.KubeRegistry {
	r := own()
	r.Reset()
	return r
}

// measure calls everything once.
func measure() {
	ObservePublish(ModeBlock, time.Second)
	ObserveScan(time.UnixMilli(1500), time.Second)
	CountConfigAccepted(time.Unix(7, 0))
	CountConfigRefused()
	ObserveDiskAvailable(time.Second)
	ObserveReleasedAvailable(time.Second)
	ObserveClean(Clean{Mode: ModeBlock, By: InProcess, Bytes: 1, Command: []string{"dd-zero", "2"}, Took: time.Minute})
	ObserveClean(Clean{Mode: ModeFilesystem, By: InJob, Failed: true})
	SetBlankProofs(2, 1)
	SetDiskHealth(map[string]int{"Healthy": 3, "Failing": 1})
	CountBlankProofBytes(4096)
	SetCleans(Cleans{Queued: 4, Running: 3, Failed: 2, Succeeded: 1})
	SetDisks([]Disk{
		{Class: "fast", Mode: ModeBlock, State: "Available", Bytes: 10, Published: true},
		{Class: "fast", State: DiskSkipped, Reason: "NotEmpty"},
	})
	_, _ = CountRequests(answers(http.StatusConflict)).RoundTrip(&http.Request{Method: http.MethodPost}) //nolint:bodyclose // there is no body
}

// answers is a transport that responds with the status, or fails if it is zero.
type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a == 0 {
		return nil, errors.New("no answer")
	}
	return &http.Response{StatusCode: int(a)}, nil
}

// Every metric is served under the name that dashboards and alerts use, those of
// the reference among them.
func TestProvisionerMetricsAreServed(t *testing.T) {
	measure() // before they are registered: ignored, not fatal
	r := registry()
	measure()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	slices.Sort(names)
	want := []string{
		"local_volume_provisioner_apiserver_requests_duration_seconds",
		"local_volume_provisioner_apiserver_requests_failed_total",
		"local_volume_provisioner_apiserver_requests_total",
		"local_volume_provisioner_persistentvolume_capacity_bytes",
		"local_volume_provisioner_persistentvolume_delete_duration_seconds",
		"local_volume_provisioner_persistentvolume_delete_failed_total",
		"local_volume_provisioner_persistentvolume_delete_total",
		"local_volume_provisioner_persistentvolume_discovery_duration_seconds",
		"local_volume_provisioner_persistentvolume_discovery_total",
		"local_volume_provisioner_proctable_failed",
		"local_volume_provisioner_proctable_running",
		"local_volume_provisioner_proctable_succeeded",
		"stowage_provisioner_blank_proof_bytes_total",
		"stowage_provisioner_blank_proof_in_progress",
		"stowage_provisioner_blank_proof_queue",
		"stowage_provisioner_clean_in_progress",
		"stowage_provisioner_clean_queue",
		"stowage_provisioner_config_last_good_timestamp_seconds",
		"stowage_provisioner_config_reloads_total",
		"stowage_provisioner_disk_health",
		"stowage_provisioner_disk_to_available_seconds",
		"stowage_provisioner_last_scan_timestamp_seconds",
		"stowage_provisioner_released_to_available_seconds",
		"stowage_provisioner_scan_duration_seconds",
		"stowage_provisioner_skipped", "stowage_provisioner_unlisted_disks",
		"stowage_provisioner_volume_bytes",
		"stowage_provisioner_volumes",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	compare(t, r, map[string]string{
		"local_volume_provisioner_persistentvolume_delete_total":        `{mode="Block",type="process"} 1`,
		"local_volume_provisioner_persistentvolume_delete_failed_total": `{mode="Filesystem",type="job"} 1`,
		"local_volume_provisioner_proctable_running":                    ` 3`,
		"local_volume_provisioner_proctable_succeeded":                  ` 1`,
		"local_volume_provisioner_proctable_failed":                     ` 2`,
		"stowage_provisioner_clean_queue":                               ` 4`,
		"stowage_provisioner_blank_proof_in_progress":                   ` 2`,
		"stowage_provisioner_blank_proof_queue":                         ` 1`,
		"stowage_provisioner_blank_proof_bytes_total":                   ` 4096`,
		"stowage_provisioner_last_scan_timestamp_seconds":               ` 1.5`,
		"stowage_provisioner_config_last_good_timestamp_seconds":        ` 7`,
		"stowage_provisioner_config_reloads_total":                      "{result=\"error\"} 1\n{result=\"success\"} 1",
	})
}

// compare compares the samples of metrics: sorted, one per line, without the name.
func compare(t *testing.T, r metrics.KubeRegistry, want map[string]string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for name, lines := range want {
		var text strings.Builder
		for _, family := range families {
			if family.GetName() == name {
				text.WriteString("# HELP " + name + " " + family.GetHelp() + "\n# TYPE " + name + " " + strings.ToLower(family.GetType().String()) + "\n")
			}
		}
		for line := range strings.Lines(lines) {
			text.WriteString(name + strings.TrimSuffix(line, "\n") + "\n")
		}
		if err := testutil.GatherAndCompare(r, strings.NewReader(text.String()), name); err != nil {
			t.Error(err)
		}
	}
}

// SetDisks replaces what was set before.
func TestDisks(t *testing.T) {
	r := registry()
	for _, step := range []struct {
		name  string
		disks []Disk
		want  map[string]string
	}{
		{"disks of two classes", []Disk{
			{Class: "fast", Mode: ModeBlock, State: "Available", Bytes: 10, Published: true},
			{Class: "fast", Mode: ModeBlock, State: "Available", Bytes: 20, Published: true},
			{Class: "fast", Mode: ModeBlock, State: "Pending", Bytes: 5},
			{Class: "slow", Mode: ModeFilesystem, State: "Bound", Bytes: 40, Published: true},
			{Class: "slow", Mode: ModeFilesystem, State: DiskSkipped, Reason: "NotEmpty", Bytes: 80},
			{Class: "slow", Mode: ModeFilesystem, State: DiskSkipped, Reason: "NotEmpty"},
		}, map[string]string{
			"stowage_provisioner_volumes":                              "{class=\"fast\",state=\"Available\"} 2\n{class=\"fast\",state=\"Pending\"} 1\n{class=\"slow\",state=\"Bound\"} 1",
			"stowage_provisioner_volume_bytes":                         "{class=\"fast\",state=\"Available\"} 30\n{class=\"fast\",state=\"Pending\"} 5\n{class=\"slow\",state=\"Bound\"} 40",
			"stowage_provisioner_skipped":                              `{class="slow",reason="NotEmpty"} 2`,
			"local_volume_provisioner_persistentvolume_capacity_bytes": "{mode=\"Block\"} 30\n{mode=\"Filesystem\"} 40",
		}},
		{"one is left, of a class with a broken name", []Disk{{Class: "f\xff", Mode: ModeBlock, State: "Bound", Bytes: 10, Published: true}}, map[string]string{
			"stowage_provisioner_volumes":                              "{class=\"f\uFFFD\",state=\"Bound\"} 1",
			"stowage_provisioner_skipped":                              "",
			"local_volume_provisioner_persistentvolume_capacity_bytes": "{mode=\"Block\"} 10\n{mode=\"Filesystem\"} 0",
		}},
		{"none is left", nil, map[string]string{
			"stowage_provisioner_volumes":                              "",
			"stowage_provisioner_volume_bytes":                         "",
			"local_volume_provisioner_persistentvolume_capacity_bytes": "{mode=\"Block\"} 0\n{mode=\"Filesystem\"} 0",
		}},
	} {
		t.Log(step.name)
		SetDisks(step.disks)
		compare(t, r, step.want)
	}
}

func TestCapacityLabel(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for bytes, want := range map[int64]string{
		-1: "0G", 0: "0G", 1: "500G", 500 * gib: "500G", 500*gib + 1: "1000G", 1<<63 - 1: "8589935000G",
	} {
		if got := capacity(bytes); got != want {
			t.Errorf("%d bytes are %s, want %s", bytes, got, want)
		}
	}
}

func TestRequestsAreCounted(t *testing.T) {
	r := registry()
	for _, request := range []struct {
		method string
		status answers
	}{
		{"GET", 200}, {"GET", 0}, {"POST", 201}, {"POST", 409}, {"POST", 403}, {"PUT", 200}, {"PATCH", 200}, {"DELETE", 404}, {"HEAD", 200},
	} {
		response, err := CountRequests(request.status).RoundTrip(&http.Request{Method: request.method}) //nolint:bodyclose // there is no body
		if (err != nil) != (request.status == 0) || err == nil && response.StatusCode != int(request.status) {
			t.Errorf("%v became %v, %v", request, response, err)
		}
	}
	compare(t, r, map[string]string{
		"local_volume_provisioner_apiserver_requests_total":        "{method=\"create\"} 3\n{method=\"delete\"} 1\n{method=\"get\"} 3\n{method=\"patch\"} 1\n{method=\"update\"} 1",
		"local_volume_provisioner_apiserver_requests_failed_total": "{method=\"create\"} 2\n{method=\"delete\"} 1\n{method=\"get\"} 1",
	})
}
