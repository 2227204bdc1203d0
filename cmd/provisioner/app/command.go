// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-provisioner command: the local provisioner,
// and what Jobs run: the cleaning of a disk, and the release of all volumes.
package app

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/localdisk/device/identity"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/server"
	"stowage.dev/stowage/pkg/server/command"
)

const (
	componentName = "stowage-provisioner"
	// configFolder is where the DaemonSet mounts the ConfigMap.
	configFolder = "/etc/stowage/provisioner"

	longDescription = `stowage-provisioner publishes the local disks of the node it runs on as
PersistentVolumes, and cleans them when the volumes are released.

It reads the ConfigMap of sig-storage-local-static-provisioner unchanged; for additional
keys see docs/provisioner-configuration.md.`
)

// options are the provisioner's flags.
type options struct {
	api         apiFlags
	config      string
	node        string
	stateDir    string
	listen      string
	secure      server.SecureFlags
	kubeletDir  string
	kubeletPath string
	proc        string
	sys         string
	fstab       string
	machineID   string
	recheck     time.Duration
}

// NewCommand returns the stowage-provisioner command. The provisioner runs
// until the command's context is done.
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:          componentName,
		Short:        "Publish and clean the local disks of this node",
		Long:         longDescription,
		Args:         cobra.NoArgs,
		Version:      command.Version(),
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd)
	command.AddLogs(cmd)
	for _, tool := range []*cobra.Command{newUninstallCommand(), newCleanCommand()} {
		// cli.Run prints the errors of commands that set up logs themselves, and logs those of
		// the others.
		tool.PersistentPreRunE = cmd.PersistentPreRunE
		cmd.AddCommand(tool)
	}
	return cmd
}

func (o *options) addFlags(cmd *cobra.Command) {
	own := cmd.Flags()
	o.api.add(own, 20, 40)
	own.StringVar(&o.config, "config", configFolder, "folder with the configuration, one file for each key: a mounted ConfigMap")
	own.StringVar(&o.node, "node-name", os.Getenv("MY_NODE_NAME"), "name of the node; default from MY_NODE_NAME")
	own.StringVar(&o.stateDir, "state-dir", "/var/lib/stowage", "folder on the node for the records of disks; must persist")
	own.StringVar(&o.listen, "listen-address", ":8080", "address of /healthz, /readyz and /metrics")
	o.secure.Add(own)
	own.StringVar(&o.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "kubelet's root directory on the node")
	own.StringVar(&o.kubeletPath, "kubelet-path", "", "path of kubelet's root directory, if not the same")
	own.StringVar(&o.proc, "host-proc", "/proc", "path of the node's /proc")
	own.StringVar(&o.sys, "host-sys", "/sys", "path of the node's /sys")
	own.StringVar(&o.fstab, "host-fstab", "/etc/fstab", "path of the node's fstab; empty for none")
	own.StringVar(&o.machineID, "host-machine-id", identity.MachineIDFile, "path of the node's /etc/machine-id; used if the firmware has no product UUID")
	own.DurationVar(&o.recheck, "recheck-period", 0, "time between the scan that finds a disk missing or failing and the one that confirms it; twelve times this is the longest time between two scans (default 5s)")
}

// apiFlags configure the client of the API server.
type apiFlags struct {
	kubeconfig string
	qps        float32
	burst      int
}

func (f *apiFlags) add(flags *pflag.FlagSet, qps float32, burst int) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file; without one the pod's service account is used")
	flags.Float32Var(&f.qps, "kube-api-qps", qps, "requests a second to the API server")
	flags.IntVar(&f.burst, "kube-api-burst", burst, "requests at once to the API server")
}

// client returns the configuration of clients of the API server.
func (f *apiFlags) client() (*rest.Config, error) {
	config, err := command.Cluster(componentName, f.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = f.qps, f.burst
	config.Wrap(metrics.CountRequests)
	return config, nil
}
