// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var language = parser.NewParser(parser.Options{})

// TestRules: Prometheus itself takes the rules, templates of annotations included.
func TestRules(t *testing.T) {
	for _, object := range rulesOf(t) {
		data, err := yaml.Marshal(object.Spec)
		if err != nil {
			t.Fatal(err)
		}
		_, errs := rulefmt.Parse(data, false, model.UTF8Validation, language, slog.New(slog.DiscardHandler))
		for _, err := range errs {
			t.Errorf("%s: %v", object.Name, err)
		}
	}
}

// metric is a row of docs/metrics.md.
type metric struct {
	kind   string
	labels []string
}

var (
	row  = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| ([^|]*) \\|")
	word = regexp.MustCompile(`\w+`)
)

// metrics are those of docs/metrics.md, which a test holds against the code, and those of
// Prometheus, kube-state-metrics and kubelet that docs/monitoring.md names.
func metrics(t *testing.T) map[string]metric {
	t.Helper()
	found := map[string]metric{
		"up":                            {kind: "gauge"},
		"kube_pod_status_unschedulable": {kind: "gauge"},
		"kube_pod_spec_volumes_persistentvolumeclaims_info": {kind: "gauge", labels: []string{"persistentvolumeclaim"}},
		"kube_persistentvolumeclaim_info":                   {kind: "gauge", labels: []string{"persistentvolumeclaim", "storageclass"}},
		"kubelet_volume_stats_available_bytes":              {kind: "gauge", labels: []string{"persistentvolumeclaim"}},
		"kubelet_volume_stats_capacity_bytes":               {kind: "gauge", labels: []string{"persistentvolumeclaim"}},
	}
	page := read(t, docs+"/monitoring.md")
	for name := range found {
		if !strings.Contains(page, "`"+name+"`") && name != "up" {
			t.Errorf("docs/monitoring.md does not name %s", name)
		}
	}
	for _, cells := range row.FindAllStringSubmatch(read(t, docs+"/metrics.md"), -1) {
		m := metric{kind: cells[2], labels: word.FindAllString(cells[3], -1)}
		if m.kind != "histogram" {
			found[cells[1]] = m
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			found[cells[1]+suffix] = m
		}
	}
	return found
}

// checkMetrics reports metrics and labels that no component serves. Labels of the target are
// those that the monitors give.
func checkMetrics(t *testing.T, where, text string, known map[string]metric) {
	t.Helper()
	expr, err := language.ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	allowed := map[string]bool{"job": true, "node": true, "instance": true, "namespace": true, "pod": true, "le": true, model.MetricNameLabel: true}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			m, served := known[selector.Name]
			if !served {
				t.Errorf("%s: docs/metrics.md has no metric %s", where, selector.Name)
			}
			for _, label := range m.labels {
				allowed[label] = true
			}
			for _, matcher := range selector.LabelMatchers {
				if !allowed[matcher.Name] {
					t.Errorf("%s: metric %s has no label %s", where, selector.Name, matcher.Name)
				}
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if sum, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range sum.Grouping {
				if !allowed[label] {
					t.Errorf("%s: no metric of it has the label %s", where, label)
				}
			}
		}
		return nil
	})
}

// TestAlertsKnowTheirMetrics: what alerts are about is served.
func TestAlertsKnowTheirMetrics(t *testing.T) {
	known := metrics(t)
	for name, rule := range alerts(t) {
		checkMetrics(t, name, rule.Expr.String(), known)
	}
}

// dashboard has the checked fields of Grafana's.
type dashboard struct {
	Title      string `json:"title"`
	UID        string `json:"uid"`
	Templating struct {
		List []struct {
			Name, Type, Query string
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ X, Y, W, H int }
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
			RefID        string `json:"refId"`
		} `json:"targets"`
	} `json:"panels"`
}

var (
	lookup    = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	variable  = regexp.MustCompile(`\$(\w+)`)
	inLegend  = regexp.MustCompile(`{{(\w+)}}`)
	forParser = strings.NewReplacer("[$__rate_interval]", "[5m]", `"$node"`, `".*"`, `"$class"`, `".*"`)
)

// TestDashboard: it parses, its variables and panels query existing metrics, no panel
// covers another, and legends name labels that are left.
func TestDashboard(t *testing.T) {
	var board dashboard
	if err := json.Unmarshal([]byte(read(t, manifests+"/dashboard/stowage.json")), &board); err != nil {
		t.Fatal(err)
	}
	if board.Title == "" || board.UID == "" {
		t.Errorf("title %q, uid %q", board.Title, board.UID)
	}
	known, ids, cells := metrics(t), map[int]bool{}, map[[2]int]string{}
	for _, v := range board.Templating.List {
		if v.Type != "query" {
			continue
		}
		if found := lookup.FindStringSubmatch(v.Query); found == nil {
			t.Errorf("variable %s: cannot read %q", v.Name, v.Query)
		} else if checkMetrics(t, "variable "+v.Name, "sum by ("+found[2]+") ("+found[1]+")", known); forParser.Replace(`"$`+v.Name+`"`) != `".*"` {
			t.Errorf("the test does not know variable %s", v.Name)
		}
	}
	for _, panel := range board.Panels {
		if ids[panel.ID] {
			t.Errorf("panel %q: id %d is another's too", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		at := panel.GridPos
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q covers %q, or is too wide", panel.Title, other)
				}
				cells[[2]int{x, y}] = panel.Title
			}
		}
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			where := "panel " + panel.Title + " " + target.RefID
			expr := forParser.Replace(target.Expr)
			if left := variable.FindString(expr); left != "" {
				t.Errorf("%s: there is no variable %s", where, left)
			}
			checkMetrics(t, where, expr, known)
			for _, label := range inLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !regexp.MustCompile(`by \([^)]*\b` + label[1] + `\b`).MatchString(expr) {
					t.Errorf("%s: the legend has %s, which the expression sums away", where, label[1])
				}
			}
		}
	}
}

// TestEveryMetricIsShown: the dashboard or an alert has each metric of our own name.
func TestEveryMetricIsShown(t *testing.T) {
	var shown strings.Builder
	shown.WriteString(read(t, manifests+"/dashboard/stowage.json"))
	for _, rule := range alerts(t) {
		shown.WriteString(rule.Expr.String())
	}
	text := shown.String()
	for _, name := range slices.Sorted(maps.Keys(metrics(t))) {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(name, "stowage_") && !strings.Contains(text, base) {
			t.Errorf("neither dashboard nor alert has %s", base)
		}
	}
}
