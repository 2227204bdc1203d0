// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles kubectl-stowage. Its commands read the cluster with the rights of the user, or files,
// and decide with the code that runs in the cluster.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/server/command"
)

const longDescription = `kubectl stowage says why pods and volumes wait, where storage is, and what would fit.

It reads the cluster with your own rights and decides with the code that runs in the cluster. What it
could not read is said with each answer. With --from it reads files instead: an archive of
kubectl stowage sysdump, or what kubectl get -o yaml printed.`

// Main runs the plugin with arguments, and returns the exit code: 1 for an error, and for a status that is
// not healthy. SIGINT and SIGTERM end it.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(logr.Discard()) // errors are returned; the simulated scheduler logs
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	cmd := NewCommand(genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut})
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	var silent exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &silent):
		return int(silent)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "error:", err)
	return 1
}

// softMemory is from how many bytes on garbage is collected more often. Without it the memory of a large cluster is twice
// that of its objects.
const softMemory = 900 << 20

// garbagePercent is how much garbage there may be below that, as a part of the memory in use: a command ends within seconds,
// and most of what it allocates is in use until then.
const garbagePercent = 400

// exitCode is an error that ends the plugin without a message: the output has said it.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// cluster is the flags that say what is read.
type cluster struct {
	*genericclioptions.ConfigFlags
	from string
	// opened is the snapshot of from, once it is read.
	opened *snapshot.Snapshot
}

// NewCommand returns the plugin's command.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		// kubectl shows plugins as commands of its own.
		Use:           "kubectl-stowage",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl stowage"},
		Short:         "Why pods and volumes wait, where storage is, what would fit",
		Long:          longDescription,
		Version:       command.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(escaped{streams.Out})
	cmd.SetErr(escaped{streams.ErrOut})
	c := &cluster{ConfigFlags: genericclioptions.NewConfigFlags(true)}
	c.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&c.from, "from", "", "read this file, folder or archive of sysdump instead of a cluster")
	c.completeGlobalFlags(cmd)
	cmd.AddCommand(newAdoptCommand(c), newReleaseCommand(c), newAcknowledgeCommand(c), newValidateCommand(), newConvertValuesCommand(), newPavCommand(), newStatusCommand(c), newSysdumpCommand(c))
	cmd.AddCommand(newWhyCommand(c), newMapCommand(c), newFitCommand(c), newUICommand(c))
	return cmd
}

// namespace returns that of the flag, else that of the kubeconfig's context, else default.
func (c *cluster) namespace() (string, error) {
	namespace, _, err := c.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	return namespace, nil
}

// config returns how to connect to the API server.
func (c *cluster) config() (*rest.Config, error) {
	config, err := c.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.UserAgent = "kubectl-stowage/" + command.Version()
	config.DisableCompression = config.DisableCompression || onThisMachine(config.Host)
	return config, nil
}

// onThisMachine reports whether an API server runs on this machine, by its address: then compression costs more time than
// it saves.
func onThisMachine(host string) bool {
	server, _, err := rest.DefaultServerURL(host, "", schema.GroupVersion{}, true)
	if err != nil {
		return false
	}
	ip := net.ParseIP(server.Hostname())
	return server.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// read returns a snapshot of the cluster, or of --from, which has all kinds that its files have.
func (c *cluster) read(ctx context.Context, queries ...snapshot.Query) (*snapshot.Snapshot, error) {
	if c.from != "" {
		if c.opened != nil {
			return c.opened, nil
		}
		var err error
		c.opened, err = snapshot.Open(c.from)
		return c.opened, err
	}
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	return (&snapshot.Reader{Config: config, Namespace: namespace}).Read(ctx, queries...)
}
