// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs checks README.md, CHANGELOG.md, SECURITY.md, the chart's README.md and docs/ against the code.
package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"

	"stowage.dev/stowage/pkg/metrics"
)

// root is the top of the repository.
const root = "../.."

// pages returns the pages for users at the top of the repository, the chart's, and everything under docs, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, name := range []string{"README.md", "CHANGELOG.md", "SECURITY.md", "manifests/charts/stowage/README.md"} {
		texts[name] = read(t, name)
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			name, _ := filepath.Rel(root, path)
			texts[name] = read(t, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinks: what pages link to in the repository exists.
func TestLinks(t *testing.T) {
	t.Parallel()
	for name, text := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target := filepath.Join(root, filepath.Dir(name), found[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, found[1])
			}
		}
	}
}

// changes and changelog are the headings of a version, and of a changelog, in the form of Keep a Changelog.
const changes = `(?:### (?:Added|Changed|Deprecated|Removed|Fixed|Security)\n)+`

var changelog = regexp.MustCompile(`^# Changelog\n## \[Unreleased\]\n(?:` + changes + `)?(?:## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d\n` + changes + `)*$`)

// TestChangelog: CHANGELOG.md has the section of the next release, and well-formed headings, by which release notes are found.
func TestChangelog(t *testing.T) {
	t.Parallel()
	if got := strings.Join(regexp.MustCompile(`(?m)^#.*\n`).FindAllString(read(t, "CHANGELOG.md"), -1), ""); !changelog.MatchString(got) {
		t.Errorf("CHANGELOG.md has the headings\n%swant those that match %s", got, changelog)
	}
}

var (
	mention    = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)`")
	definition = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)\(`)
)

// TestNamedTestsExist: a test that a page names as proof is there.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	for _, top := range []string{"cmd", "hack", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, found := range definition.FindAllSubmatch(data, -1) {
				defined[string(found[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range pages(t) {
		for _, found := range mention.FindAllStringSubmatch(text, -1) {
			if !defined[found[1]] {
				t.Errorf("%s names %s, which does not exist", name, found[1])
			}
		}
	}
}

// TestMetrics: docs/metrics.md has a line for each metric of the scheduler, the
// provisioner, the extender, the controller and the node service, and no other.
func TestMetrics(t *testing.T) {
	t.Parallel()
	metrics.Register()
	// A metric with labels shows itself once it has been measured.
	metrics.ObserveBind("Direct", "success", time.Second)
	metrics.ObserveBindStage("undo", "success", time.Second)
	metrics.CountBindConflict("persistentvolumes", "done")
	clientmetrics.RateLimiterLatency.Observe(t.Context(), "GET", url.URL{Host: "server"}, time.Second)
	measureProvisioner()
	defer metrics.WatchCache(func() metrics.CacheSize {
		return metrics.CacheSize{Provisioning: map[string]metrics.Provisioning{"fast": {}}}
	})()
	metrics.RegisterExtender()
	metrics.ObserveExtenderRequest("filter", "ok", time.Second)
	metrics.CountExtenderBind("bound")
	metrics.RegisterController()
	metrics.AddNodeLossVolumes("NodeGone", "Kept", 1)
	metrics.CountNodeLossRelease(metrics.ReleaseDone)
	metrics.CountNodeLossRemoval(metrics.RemovalDone)
	metrics.CountCleaningJobFailed("JobFailed")
	metrics.CountInPlaceClaim(metrics.InPlaceBound)
	metrics.CountInPlaceConflict("persistentvolumes")
	measurePav()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "stowage_") && !strings.HasPrefix(name, "local_volume_provisioner_") && name != "rest_client_rate_limiter_duration_seconds" {
			continue
		}
		labels := map[string]bool{}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				labels["`"+label.GetName()+"`"] = true
			}
		}
		help, ok := strings.CutPrefix(family.GetHelp(), "[ALPHA] ")
		if !ok {
			t.Errorf("%s is not ALPHA, as the page says: %s", name, family.GetHelp())
		}
		want[name] = fmt.Sprintf("| `%s` | %s | %s | %s |", name, strings.ToLower(family.GetType().String()),
			strings.Join(slices.Sorted(maps.Keys(labels)), ", "), help)
	}
	got := map[string]string{}
	for line := range strings.Lines(read(t, "docs/metrics.md")) {
		if fields := strings.Split(line, "`"); strings.HasPrefix(line, "| `") {
			got[fields[1]] = strings.TrimSpace(line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md (-want +got):\n%s", diff)
	}
}

// measurePav measures each metric of PavProvisioners that has labels.
func measurePav() {
	metrics.RegisterCSI()
	metrics.AddPavProvisioners("Accepted", 1)
	metrics.AddPavVolumes("Provisioned", 1)
	metrics.AddPavStagings("Staged", 1)
	metrics.AddPavFailing("create", "CreationFailed", 1)
	metrics.ObservePavStep("Creation", metrics.PavSucceeded, time.Second)
	metrics.ObserveCSICall("NodeStageVolume", "OK", time.Second)
	metrics.CountCSIRegistration(true)
}

// measureProvisioner measures each metric of the provisioner that has labels.
func measureProvisioner() {
	metrics.RegisterProvisioner()
	metrics.ObservePublish(metrics.ModeBlock, time.Second)
	metrics.CountConfigRefused()
	metrics.SetDiskHealth(map[string]int{"Healthy": 1})
	metrics.ObserveClean(metrics.Clean{Mode: metrics.ModeBlock, By: metrics.InProcess})
	metrics.ObserveClean(metrics.Clean{Mode: metrics.ModeBlock, By: metrics.InProcess, Failed: true})
	metrics.SetDisks([]metrics.Disk{{Class: "fast", State: "Available"}, {Class: "fast", State: metrics.DiskSkipped}})
	_, _ = metrics.CountRequests(noServer{}).RoundTrip(&http.Request{Method: http.MethodPost}) //nolint:bodyclose // there is no response
}

// noServer answers no request.
type noServer struct{}

func (noServer) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrHandlerTimeout }
