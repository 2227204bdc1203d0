// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/result"
)

// sample has all parts.
func sample() File {
	c := page.Circumstances{Load: 0.3, Source: result.Source{
		Time: time.Date(2026, 1, 2, 23, 30, 0, 0, time.UTC), Command: "make bench-local", Version: "v0.0.1",
		Kubernetes: "v1.37.1", Go: "go1.26.0", CPU: "Imaginary CPU", CPUs: 2, Memory: 24 << 30, System: "Linux 0.0",
	}}
	watch := func(arm Arm, watchers int, cpu float64, sent, events int64) Watch {
		return Watch{
			Arm: arm, Round: 1, Watchers: watchers, RSS: 400<<20 + int64(watchers)<<20,
			Begin: Phase{Seconds: 2, CPU: cpu, Bytes: sent, Events: events}, Update: Phase{Seconds: 3, CPU: 1 + cpu, Bytes: sent, Events: events},
		}
	}
	return File{
		Appearing: &Latencies{Circumstances: c, Series: []Series{{Name: "ext4, mounted", Millis: []float64{30, 10, 1200, 20}}, {Name: "no provisioner", Bare: true, Millis: []float64{5000}}}},
		Releasing: &Latencies{Circumstances: c, Series: []Series{{Name: "ext4, mounted", Millis: []float64{150}}, {Name: "block device, linked", Millis: []float64{9000}}}},
		Resting:   &Resting{Circumstances: c, Volumes: 100, StartSeconds: 5, RSS: 30 << 20, PeakRSS: 41 << 20, Seconds: 120, CPU: 0.3, Scans: 8, ScanSeconds: 0.004, ResyncSeconds: 10, Devices: 100},
		Wiping:    &Wiping{Circumstances: c, Bytes: 1 << 30, Runs: []Wipe{{Command: "zero", Seconds: 0.5, PeakRSS: 30 << 20, PeakGroup: 63 << 20}, {Command: "shred 1", Seconds: 4, PeakRSS: 30 << 20, Anchor: "shred DEVICE", AnchorSeconds: 5}}},
		Watching: &Watching{Circumstances: c, Volumes: 10_000, Nodes: 1000, Updates: 2000, Runs: []Watch{
			watch(Nobody, 0, 0.5, 0, 0), watch(Filtered, 1000, 4.5, 5<<20, 10_000), watch(All, 50, 2.5, 100<<20, 500_000),
		}},
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	f := sample()
	got := f.Page()
	for what, want := range map[string]string{
		"the slowest disk misses its floor":              "| disk appears → Available, slowest of all: ext4, mounted | < 1 s | 1.20 s | **missed** |",
		"a file system meets its":                        "| Released → Available, slowest of all: ext4, mounted, empty | < 2 s | 150 ms | met |",
		"memory at rest meets its":                       "| RSS at rest with 100 volumes | < 40 MiB | 30 MiB | met |",
		"memory at the start does not":                   "| RSS, largest since its start | < 40 MiB | 41 MiB | **missed** |",
		"no scan asked a device":                         "| requests of devices while rescanned | 0 | 0 | met |",
		"quantiles are of the series":                    "| ext4, mounted | 4 | 20 ms | 1.20 s | 1.20 s |",
		"a wipe that no cgroup counted has none":         "| `shred 1` | 4.0 s | 256 MiB/s | 30 MiB | – | `shred DEVICE` 5.0 s |",
		"that cgroups could not be used is said":         "\nCgroups could not be used on this machine.\n",
		"watchers are scaled by what they cost beyond":   "| all, scaled up | 1,000 | – | 40.50 s | 2000 MiB | 10,000,000 | 1400 MiB |",
		"nobody does not come":                           "| nobody | 0 | 3.00 s | 1.50 s | 0 | 0 |",
		"where all comes from is said once":              "latencies on 2026-01-02 23:30 (load average before: 0.3); rest on",
		"the machine is named":                           "- 2 processors of Imaginary CPU, 24.0 GiB of memory",
		"the command is one that can be given once more": "- `make bench-local`",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: the page does not say %q:\n%s", what, want, got)
		}
	}
	for name, no := range map[string]string{"a client without a provisioner": "slowest of all: no provisioner", "a device that is zeroed": "slowest of all: block device"} {
		if strings.Contains(got, no) {
			t.Errorf("%s has a floor", name)
		}
	}
}

// TestPublished: the page shows the figures beside it, and no others.
func TestPublished(t *testing.T) {
	t.Parallel()
	const docs = "../../../../docs/"
	f, err := Load(docs + "local-benchmarks.json")
	if err != nil {
		t.Fatal(err)
	}
	published, err := os.ReadFile(docs + "local-benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.Page(), string(published)); diff != "" {
		t.Errorf("docs/local-benchmarks.md is not what its figures make (-want +got); run go run ./test/perf/local -render docs/local-benchmarks.json:\n%s", diff)
	}
}
