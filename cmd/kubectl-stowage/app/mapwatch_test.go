// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"stowage.dev/stowage/pkg/inspect/live"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/testing/builders"
)

// site is a cluster that a test changes.
type site struct {
	changed chan struct{}

	mu         sync.Mutex
	snapshot   *snapshot.Snapshot
	connection live.Connection
}

func (s *site) Changed() <-chan struct{} { return s.changed }

func (s *site) Snapshot() *snapshot.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot
}

func (s *site) Connection() live.Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connection
}

func (s *site) set(to *snapshot.Snapshot, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot, s.connection = to, live.Connection{Err: err, Since: time.Date(2026, 1, 1, 10, 11, 12, 0, time.UTC)}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// shown is what was written since it was taken last.
type shown struct {
	mu   sync.Mutex
	text []byte
}

func (s *shown) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, text...)
	return len(text), nil
}

func (s *shown) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(s.text)
	s.text = nil
	return text
}

// volumes returns a snapshot of a node's volumes.
func volumes(names ...string) *snapshot.Snapshot {
	objects := []snapshot.Object{builders.MakeNode("a").Hostname("a").Obj()}
	for _, name := range names {
		objects = append(objects, builders.MakePV(name).Class("fast").Hostname("a").Capacity("1Gi").Obj())
	}
	return snapshot.Build(objects...)
}

// TestMapWatch: each step is what happens within a second, and what is shown at once.
func TestMapWatch(t *testing.T) {
	type state struct {
		snapshot *snapshot.Snapshot
		err      error
	}
	lost := errors.New("no connection\x1b[2J")
	one, two, three, none := volumes("v1"), volumes("v1", "v2"), volumes("v1", "v2", "v3"), volumes()
	for name, test := range map[string]struct {
		output string
		rows   int
		steps  [][]state
		want   []string // for each step
		fails  string
	}{
		"each map that changed, below the one before": {
			output: "json", steps: [][]state{{{one, live.ErrConnecting}}, {{volumes("v1"), nil}}, {{two, nil}}},
			want: []string{"<one>", "", "\n<two>"},
		},
		"documents of YAML": {
			output: "yaml", steps: [][]state{{{one, nil}}, {{two, nil}}}, want: []string{"<one>", "---\n<two>"},
		},
		"at most one map a second": {
			output: "json", steps: [][]state{{{one, nil}, {two, nil}, {three, nil}}, nil}, want: []string{"<one>", "\n<three>"},
		},
		"it waits for the first snapshot": {
			output: "json", steps: [][]state{{{nil, live.ErrConnecting}}, {{one, nil}}}, want: []string{"", "<one>"},
		},
		"the connection is lost and found": {
			output: "json", steps: [][]state{{{one, nil}}, {{one, lost}}, {{two, lost}}, {{two, nil}}},
			want: []string{"<one>", "Not up to date since 10:11:12: no connection^[[2J\n", "\n<two>", "Up to date again.\n"},
		},
		"the connection is lost with a change": {
			output: "json", steps: [][]state{{{one, nil}}, {{two, lost}}},
			want: []string{"<one>", "\n<two>Not up to date since 10:11:12: no connection^[[2J\n"},
		},
		"on a terminal instead of the one before": {
			output: "json", rows: 1000, steps: [][]state{{{one, nil}}, {{one, lost}}, {{one, nil}}, {{one, nil}}},
			want: []string{clearScreen + "<one>", clearScreen + "Not up to date since 10:11:12: no connection^[[2J\n\n<one>", clearScreen + "<one>", ""},
		},
		"there is no API server":        {output: "json", steps: [][]state{{{nil, lost}}}, want: []string{""}, fails: lost.Error()},
		"there is no such class":        {output: "json", steps: [][]state{{{none, nil}}}, want: []string{""}, fails: `--class: there is no StorageClass "fast"; there are none`},
		"its volumes are deleted later": {output: "json", steps: [][]state{{{one, nil}}, {{none, nil}}}, want: []string{"<one>", "\n<none>"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &site{changed: make(chan struct{}, 1)}
				var out shown
				o := &mapOptions{cluster: &cluster{ConfigFlags: genericclioptions.NewConfigFlags(true)}, output: outputFlag(test.output), by: "node", class: "fast"}
				to := &screen{out: &out, errOut: &out, width: defaultWidth, rows: func() int { return test.rows }, separator: separatorOf(test.output)}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- o.follow(ctx, c, to) }()
				synctest.Wait()
				var got []string
				for _, step := range test.steps {
					for _, s := range step {
						c.set(s.snapshot, s.err)
						synctest.Wait()
					}
					got = append(got, out.take())
					time.Sleep(2 * redrawPeriod) //nolint:forbidigo // in a synctest bubble
					synctest.Wait()
				}
				var want []string
				for _, shows := range test.want {
					for name, s := range map[string]*snapshot.Snapshot{"<one>": one, "<two>": two, "<three>": three, "<none>": none} {
						var text bytes.Buffer
						if err := o.print(&printer{Writer: &text, width: defaultWidth}, s, o.report(s)); err != nil {
							t.Fatal(err)
						}
						shows = strings.ReplaceAll(shows, name, text.String())
					}
					want = append(want, shows)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("shown at each step (-want +got):\n%s", diff)
				}
				stop()
				fails := ""
				if err := <-ended; err != nil {
					fails = err.Error()
				}
				if fails != test.fails {
					t.Errorf("error %q, want %q", fails, test.fails)
				}
			})
		})
	}
}

// TestFirstRows: a map that is longer than the terminal ends with a line that says so.
func TestFirstRows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		rows int
		want string
	}{
		"it fits":        {"a\nb\nc\n", 4, "a\nb\nc\n"},
		"it is longer":   {"a\nb\nc\nd\n", 4, "a\nb\nand 2 more lines; --class and --node select\n"},
		"a single row":   {"a\nb\nc\n", 1, "a\nand 2 more lines; --class and --node select\n"},
		"an empty map":   {"\n", 4, "\n"},
		"nothing at all": {"", 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, string(firstRows([]byte(test.text), test.rows))); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}
