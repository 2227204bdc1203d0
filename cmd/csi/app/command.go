// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-csi command.
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"stowage.dev/stowage/pkg/pav/nodeservice"
	"stowage.dev/stowage/pkg/pav/nodeservice/publish"
	"stowage.dev/stowage/pkg/pav/nodeservice/stagingdir"
	"stowage.dev/stowage/pkg/pav/pavclient"
	"stowage.dev/stowage/pkg/pav/pavdir"
	"stowage.dev/stowage/pkg/server"
	"stowage.dev/stowage/pkg/server/command"
)

const (
	componentName = "stowage-csi"

	longDescription = `stowage-csi is the CSI node service of all PavProvisioners on the node it runs on. It
registers them with kubelet, and mounts the volumes that their pods make available.`

	// gcPercent trades CPU, of which the service uses little, for memory on every node.
	gcPercent = 40
)

// options are the flags.
type options struct {
	kubeconfig string
	qps        float32
	burst      int
	node       string
	kubeletDir string
	bootIDFile string
	maxVolumes int64
	listen     string
	secure     server.SecureFlags
}

// NewCommand returns the stowage-csi command, which runs until its context is done.
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:          componentName,
		Short:        "Mount the volumes of PavProvisioners on this node",
		Long:         longDescription,
		Args:         cobra.NoArgs,
		Version:      command.Version(),
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file; without one the pod's service account is used")
	flags.Float32Var(&o.qps, "kube-api-qps", 20, "requests a second to the API server")
	flags.IntVar(&o.burst, "kube-api-burst", 100, "requests at once to the API server")
	flags.StringVar(&o.node, "node-name", os.Getenv("MY_NODE_NAME"), "name of the node; default from MY_NODE_NAME")
	flags.StringVar(&o.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "kubelet's root directory, at the same path as on the node")
	flags.StringVar(&o.bootIDFile, "boot-id-file", "/proc/sys/kernel/random/boot_id", "file that identifies the boot of the node")
	flags.Int64Var(&o.maxVolumes, "max-volumes-per-node", 0, "volumes of each provisioner that pods on this node may use; 0 without a limit")
	flags.StringVar(&o.listen, "listen-address", ":8080", "address of /healthz, /readyz and /metrics")
	o.secure.Add(flags)
	command.AddLogs(cmd)
	return cmd
}

// validate returns which flag is wrong.
func (o *options) validate() error {
	switch {
	case o.node == "":
		return errors.New("the node's name is not known: set MY_NODE_NAME in the pod, or --node-name")
	case !filepath.IsAbs(o.kubeletDir):
		return fmt.Errorf("--kubelet-dir is %q, must be an absolute path", o.kubeletDir)
	case o.maxVolumes < 0:
		return fmt.Errorf("--max-volumes-per-node is %d, must not be negative", o.maxVolumes)
	}
	return nil
}

// run runs the service until ctx ends.
func (o *options) run(ctx context.Context) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := o.validate(); err != nil {
		return err
	}
	boot, err := os.ReadFile(o.bootIDFile)
	if err != nil {
		return fmt.Errorf("read the boot of the node: %w", err)
	}
	connection, err := command.Cluster(componentName, o.kubeconfig)
	if err != nil {
		return err
	}
	connection.QPS, connection.Burst = o.qps, o.burst
	secure, err := o.secure.Secure(connection)
	if err != nil {
		return err
	}
	clients, err := pavclient.New(connection)
	if err != nil {
		return err
	}
	dirs, err := stagingdir.New(stagingdir.Config{Root: pavdir.StagingRoot, Proc: "/proc", Sys: "/sys", Dev: "/dev"})
	if err != nil {
		return err
	}
	publisher, err := publish.New(publish.Config{KubeletDir: o.kubeletDir, Proc: "/proc"})
	if err != nil {
		return err
	}
	service, err := nodeservice.New(nodeservice.Config{
		Node: o.node, BootID: strings.TrimSpace(string(boot)), KubeletDir: o.kubeletDir, MaxVolumes: o.maxVolumes,
		Clients: clients, Dirs: dirs, Publisher: publisher, Mountinfo: "/proc/self/mountinfo",
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return service.Run(ctx) })
	group.Go(func() error {
		return server.Serve(ctx, server.Config{Address: o.listen, Secure: secure, Ready: func(string) error {
			if !service.Synced() {
				return errors.New("PavProvisioners and PavStagings are not listed yet")
			}
			return nil
		}})
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
