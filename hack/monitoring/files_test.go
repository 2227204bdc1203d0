// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// Where things are, from here.
const (
	manifests = "../../manifests/monitoring"
	docs      = "../../docs"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// documents are those of the YAML files that match, by kind.
func documents(t *testing.T, pattern string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(manifests, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	kinds := map[string][]string{}
	for _, file := range files {
		for text := range strings.SplitSeq(read(t, file), "\n---\n") {
			var object struct {
				Kind string `json:"kind"`
			}
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			kinds[object.Kind] = append(kinds[object.Kind], text)
		}
	}
	return kinds
}

// rulesOf are all rules, strictly decoded.
func rulesOf(t *testing.T) []*monitoringv1.PrometheusRule {
	t.Helper()
	var all []*monitoringv1.PrometheusRule
	for _, text := range documents(t, "*/rules.yaml")["PrometheusRule"] {
		rule := &monitoringv1.PrometheusRule{}
		if err := yaml.UnmarshalStrict([]byte(text), rule); err != nil {
			t.Fatal(err)
		}
		all = append(all, rule)
	}
	return all
}

// alerts are all alerts by name.
func alerts(t *testing.T) map[string]monitoringv1.Rule {
	t.Helper()
	found := map[string]monitoringv1.Rule{}
	for _, object := range rulesOf(t) {
		for _, group := range object.Spec.Groups {
			for _, rule := range group.Rules {
				if _, twice := found[rule.Alert]; twice || rule.Alert == "" {
					t.Errorf("%s: alert %q: has no name, or is there twice", object.Name, rule.Alert)
				}
				found[rule.Alert] = rule
			}
		}
	}
	return found
}

// TestMonitors: the operator knows every field, and the ports are those of the pods.
func TestMonitors(t *testing.T) {
	kinds := documents(t, "*/monitor.yaml")
	for _, text := range kinds["ServiceMonitor"] {
		monitor := &monitoringv1.ServiceMonitor{}
		if err := yaml.UnmarshalStrict([]byte(text), monitor); err != nil {
			t.Error(err)
		}
		if len(monitor.Spec.Endpoints) != 1 {
			t.Errorf("%s has %d endpoints", monitor.Name, len(monitor.Spec.Endpoints))
		}
	}
	for _, text := range kinds["PodMonitor"] {
		monitor := &monitoringv1.PodMonitor{}
		if err := yaml.UnmarshalStrict([]byte(text), monitor); err != nil {
			t.Error(err)
		}
		if len(monitor.Spec.PodMetricsEndpoints) != 1 {
			t.Errorf("%s has %d endpoints", monitor.Name, len(monitor.Spec.PodMetricsEndpoints))
		}
	}
	if services, pods := len(kinds["ServiceMonitor"]), len(kinds["PodMonitor"]); services != 1 || pods != 4 {
		t.Errorf("%d ServiceMonitors and %d PodMonitors, want 1 and 4", services, pods)
	}
}

// TestRunbooks: each alert leads to its section of docs/monitoring.md, and each section is
// an alert's.
func TestRunbooks(t *testing.T) {
	var sections, names []string
	for _, found := range regexp.MustCompile(`(?m)^### (Stowage\w+)$`).FindAllStringSubmatch(read(t, docs+"/monitoring.md"), -1) {
		sections = append(sections, found[1])
	}
	for name, rule := range alerts(t) {
		names = append(names, name)
		want := "https://stowage.dev/docs/monitoring#" + strings.ToLower(name)
		if got := rule.Annotations["runbook_url"]; got != want {
			t.Errorf("%s: runbook_url is %q, want %q", name, got, want)
		}
		if severity := rule.Labels["severity"]; !slices.Contains([]string{"info", "warning", "critical"}, severity) {
			t.Errorf("%s: severity is %q, want info, warning or critical", name, severity)
		}
		for _, key := range []string{"summary", "description"} {
			if rule.Annotations[key] == "" {
				t.Errorf("%s has no %s", name, key)
			}
		}
	}
	slices.Sort(sections)
	slices.Sort(names)
	if !slices.Equal(sections, names) {
		t.Errorf("docs/monitoring.md has sections %v, the alerts are %v", sections, names)
	}
}
