// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/live"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// redrawPeriod is the least time between two maps. Maps of large clusters take a good part of it.
const redrawPeriod = time.Second

// changing is a snapshot that is kept up to date: a live.Cluster.
type changing interface {
	Snapshot() *snapshot.Snapshot
	Changed() <-chan struct{}
	Connection() live.Connection
}

// runWatch shows the map until the context of the command is done.
func (o *mapOptions) runWatch(cmd *cobra.Command) error {
	config, err := o.config()
	if err != nil {
		return err
	}
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	c, err := live.New(live.Config{REST: config, Namespace: namespace, Queries: o.queries()})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(cmd.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // always nil
	defer running.Wait()
	defer stop()
	return o.follow(ctx, c, newScreen(cmd, string(o.output)))
}

// follow shows each map that differs from the one before, and when the connection is lost and found. An API server that
// does not answer at first is an error, as without --watch.
func (o *mapOptions) follow(ctx context.Context, c changing, to *screen) error {
	var shown *v1alpha1.StorageMap
	for {
		s, connection := c.Snapshot(), c.Connection()
		if errors.Is(connection.Err, live.ErrConnecting) {
			connection.Err = nil // its answer follows
		}
		switch {
		case s == nil && connection.Err != nil:
			return connection.Err
		case s != nil && shown == nil:
			if err := o.known(s); err != nil {
				return err
			}
		}
		if s != nil {
			report := o.report(s)
			changed := shown == nil || !sameMap(shown, report)
			shown = report
			var text bytes.Buffer
			if err := o.print(&printer{Writer: escaped{&text}, width: to.width}, s, report); err != nil {
				return err
			}
			if err := to.show(text.Bytes(), changed, connection); err != nil {
				return fmt.Errorf("print the result: %w", err)
			}
		}
		if !next(ctx, c.Changed(), s != nil) {
			return nil
		}
	}
}

// next waits for the next change, for redrawPeriod at least if a map was shown. It returns false if ctx is done before.
func next(ctx context.Context, changed <-chan struct{}, shown bool) bool {
	if shown {
		timer := time.NewTimer(redrawPeriod)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
		return true
	}
}

// sameMap reports whether two maps differ at most in their times.
func sameMap(a, b *v1alpha1.StorageMap) bool {
	first, second := *a, *b
	first.Time, second.Time = nil, nil
	return equality.Semantic.DeepEqual(first, second)
}

// screen shows maps: on a terminal each one instead of the one before, else below it.
type screen struct {
	out, errOut io.Writer // out does not escape
	width       int
	rows        func() int // 0 if it is not a terminal
	separator   string
	// shown: there was a map, lost: the connection was lost when it was shown.
	shown, lost bool
}

func newScreen(cmd *cobra.Command, output string) *screen {
	out := cmd.OutOrStdout()
	s := &screen{out: out, errOut: cmd.ErrOrStderr(), width: newPrinter(cmd).width, separator: separatorOf(output)}
	s.rows = func() int {
		_, rows := terminalSize(out)
		return rows
	}
	if e, ok := out.(escaped); ok {
		s.out = e.Writer // what is shown is escaped already
	}
	return s
}

// separatorOf returns what is between two maps.
func separatorOf(output string) string {
	if output == "yaml" {
		return "---\n"
	}
	return "\n"
}

// clearScreen moves the cursor of a terminal to the top, and clears the screen.
const clearScreen = "\x1b[H\x1b[2J"

// show shows a map if it changed, and the state of the connection if that did.
func (s *screen) show(text []byte, changed bool, connection live.Connection) error {
	lost := connection.Err != nil
	turned := lost != s.lost
	if !changed && !turned {
		return nil
	}
	var state bytes.Buffer
	if lost {
		fmt.Fprintf(escaped{&state}, "Not up to date since %s: %s\n", connection.Since.Format(time.TimeOnly), connection.Err)
	}
	separated := s.shown
	s.shown, s.lost = true, lost
	if rows := s.rows(); rows > 0 {
		if lost {
			text = slices.Concat(state.Bytes(), []byte("\n"), text)
		}
		_, err := s.out.Write(append([]byte(clearScreen), firstRows(text, rows)...))
		return err
	}
	if changed {
		if separated {
			text = append([]byte(s.separator), text...)
		}
		if _, err := s.out.Write(text); err != nil {
			return err
		}
	}
	if turned && !lost {
		state.WriteString("Up to date again.\n")
	}
	if turned {
		_, err := s.errOut.Write(state.Bytes())
		return err
	}
	return nil
}

// firstRows returns the first lines of a text that fit a terminal, whose last row has the cursor.
func firstRows(text []byte, rows int) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1] // every text ends with a newline
	shown := max(rows-2, 1)
	if len(lines) <= rows-1 {
		return text
	}
	more := fmt.Sprintf("and %d more lines; --class and --node select\n", len(lines)-shown)
	return append(bytes.Join(lines[:shown:shown], nil), more...)
}
