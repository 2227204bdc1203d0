// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"stowage.dev/stowage/pkg/inspect/live"
	"stowage.dev/stowage/pkg/inspect/page"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/inspect/storagemap"
	"stowage.dev/stowage/pkg/inspect/why"
)

const uiDescription = `ui shows the storage map in a browser: disks by node, pods that wait and why, and what would fit. The page
follows the cluster until you end the command.

The page is served on this machine only, with your own rights, and only reads. Each address that is printed
opens it once; the page then has a cookie. On another machine, forward the port: ssh -L PORT:127.0.0.1:PORT.

-n limits the pods that wait, not the volumes.`

const uiExamples = `  kubectl stowage ui
  kubectl stowage ui --port 8080 --open=false
  kubectl stowage ui --from sysdump.tar.gz`

type uiOptions struct {
	*cluster
	port int
	open bool
}

func newUICommand(c *cluster) *cobra.Command {
	o := &uiOptions{cluster: c}
	cmd := &cobra.Command{
		Use: "ui", Short: "Show the storage map in a browser", Long: uiDescription, Example: uiExamples,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	cmd.Flags().IntVar(&o.port, "port", 0, "port on this machine; 0 is any free one")
	cmd.Flags().BoolVar(&o.open, "open", true, "open the browser, if there is a terminal")
	return cmd
}

// minPort is the first port that every user may listen on.
const minPort = 1024

func (o *uiOptions) run(cmd *cobra.Command) error {
	if o.port != 0 && (o.port < minPort || o.port > 65535) {
		return fmt.Errorf("--port: must be 0, or from %d to 65535, and is %d", minPort, o.port)
	}
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	source, follow, err := o.source(cmd.Context(), namespace)
	if err != nil {
		return err
	}
	name, err := o.name()
	if err != nil {
		return err
	}
	listener, err := page.Listen(cmd.Context(), o.port)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--port: %d is in use: give another one, or 0 for any free one", o.port)
	}
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	server := page.New(page.Config{
		Listener: listener, Source: source, Cluster: name, From: o.from, Map: o.storage,
		Answers:  &uiAnswers{cluster: o.cluster, namespace: namespace},
		Announce: (&announcer{out: cmd.OutOrStdout(), open: o.open && canOpen(cmd.OutOrStdout())}).announce,
	})
	group, ctx := errgroup.WithContext(cmd.Context())
	group.Go(func() error { return follow(ctx) })
	group.Go(func() error { return server.Run(ctx) })
	return group.Wait()
}

// source returns what is shown, and a function that keeps it up to date until its context is done.
func (o *uiOptions) source(ctx context.Context, namespace string) (page.Source, func(context.Context) error, error) {
	if o.from != "" {
		files, err := o.read(ctx)
		if err != nil {
			return nil, nil, err
		}
		return unchanging{files}, func(context.Context) error { return nil }, nil
	}
	config, err := o.config()
	if err != nil {
		return nil, nil, err
	}
	following, err := live.New(live.Config{REST: config, Namespace: namespace, Queries: uiQueries()})
	if err != nil {
		return nil, nil, err
	}
	return following, following.Run, nil
}

// uiQueries are what the map, why and fit read.
func uiQueries() []snapshot.Query {
	all := schedulingQueries()
	for _, kind := range slices.Concat(storagemap.Kinds(), why.StorageKinds()) {
		if query := (snapshot.Query{Kind: kind}); !slices.Contains(all, query) {
			all = append(all, query)
		}
	}
	return all
}

// name returns the name of the cluster for the user: that of the context, else the address of the API server.
func (o *uiOptions) name() (string, error) {
	if o.from != "" {
		return "", nil
	}
	if *o.Context != "" {
		return *o.Context, nil
	}
	kubeconfig, err := o.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	if kubeconfig.CurrentContext != "" && *o.APIServer == "" {
		return kubeconfig.CurrentContext, nil
	}
	config, err := o.config()
	if err != nil {
		return "", err
	}
	return config.Host, nil
}

// storage returns what the page shows of a snapshot.
func (o *uiOptions) storage(s *snapshot.Snapshot) *page.Storage {
	m := storagemap.Map(s, storagemap.Options{By: storagemap.ByNode, Namespace: *o.Namespace})
	classes, capacities := storagemap.Classes(m)
	return &page.Storage{
		Summary: page.Summary{Classes: classes, Total: m.Total, NetworkVolumes: m.NetworkVolumes, Capacities: capacities},
		Nodes:   storagemap.Nodes(s, m.Disks), Disks: m.Disks, WaitingPods: m.WaitingPods, Unseen: m.Unseen,
	}
}

// unchanging is the snapshot of files.
type unchanging struct{ snapshot *snapshot.Snapshot }

func (u unchanging) Snapshot() *snapshot.Snapshot { return u.snapshot }
func (unchanging) Changed() <-chan struct{}       { return nil }
func (u unchanging) Connection() live.Connection  { return live.Connection{LastSeen: u.snapshot.Time} }

// announcer prints addresses, and opens the first one in the browser.
type announcer struct {
	out       io.Writer
	open      bool
	announced bool
}

func (a *announcer) announce(address string) {
	switch {
	case a.announced:
		fmt.Fprintln(a.out, "For another browser:", address)
	case a.open && openBrowser(address) == nil:
		fmt.Fprintln(a.out, "The storage map is opened in the browser. Ctrl-C ends it. Its address, valid once:", address)
	default:
		fmt.Fprintln(a.out, "Storage map, until Ctrl-C. Its address, valid once:", address)
	}
	a.announced = true
}

// canOpen reports whether the output is a terminal, and a browser has a screen.
func canOpen(out io.Writer) bool {
	if columns, _ := terminalSize(out); columns == 0 {
		return false
	}
	return runtime.GOOS != "linux" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// openBrowser starts the program of the operating system that opens addresses. It does not wait for it: the program may run
// as long as the browser.
func openBrowser(address string) error {
	arguments := []string{"xdg-open", address}
	switch runtime.GOOS {
	case "darwin":
		arguments = []string{"open", address}
	case "windows":
		arguments = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	cmd := exec.Command(arguments[0], arguments[1:]...) //nolint:gosec // the address is the page's own
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
