// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-provisioner command: the node agent, and the tools
// that go with it.
package app

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"stowage.dev/stowage/pkg/metrics"
)

const (
	componentName = "stowage-provisioner"
	// configFolder is where the DaemonSet has the ConfigMap.
	configFolder = "/etc/stowage/provisioner"

	longDescription = `stowage-provisioner publishes the local disks of the node it runs on as
PersistentVolumes, and cleans them when they are given back.

It reads the ConfigMap of sig-storage-local-static-provisioner as it is; see
docs/provisioner-configuration.md for what it knows beyond that.`
)

// options are the agent's flags.
type options struct {
	kubeconfig  string
	qps         float32
	burst       int
	config      string
	node        string
	stateDir    string
	listen      string
	kubeletDir  string
	kubeletPath string
	proc        string
	sys         string
	fstab       string
	recheck     time.Duration
	logs        *logsapi.LoggingConfiguration
	featureGate featuregate.MutableVersionedFeatureGate
}

// NewCommand returns the stowage-provisioner command. The agent runs until the
// command's context is done.
func NewCommand() *cobra.Command {
	o := &options{logs: logsapi.NewLoggingConfiguration(), featureGate: featuregate.NewVersionedFeatureGate(apiversion.MustParse("1.37"))}
	cmd := &cobra.Command{
		Use:          componentName,
		Short:        "Publish and clean the local disks of this node",
		Long:         longDescription,
		Args:         cobra.NoArgs,
		Version:      stowageVersion(),
		SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			logs.InitLogs()
			if err := logsapi.AddFeatureGates(o.featureGate); err != nil {
				return err
			}
			return logsapi.ValidateAndApply(o.logs, o.featureGate)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd)
	for _, tool := range []*cobra.Command{newValidateCommand(), newAdoptCommand(o), newReleaseCommand(o), newCleanCommand()} {
		// cli.Run prints the errors of commands that set up logs by themselves, and logs
		// those of the others.
		tool.PersistentPreRunE = cmd.PersistentPreRunE
		cmd.AddCommand(tool)
	}
	return cmd
}

func (o *options) addFlags(cmd *cobra.Command) {
	all := cmd.PersistentFlags()
	all.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file; without one the pod's service account is used")
	all.Float32Var(&o.qps, "kube-api-qps", 20, "requests a second to the API server")
	all.IntVar(&o.burst, "kube-api-burst", 40, "requests at once to the API server")
	logsapi.AddFlags(o.logs, all)
	own := cmd.Flags()
	own.StringVar(&o.config, "config", configFolder, "folder with the configuration, one file for each key: a mounted ConfigMap")
	own.StringVar(&o.node, "node-name", os.Getenv("MY_NODE_NAME"), "name of the node; default from MY_NODE_NAME")
	own.StringVar(&o.stateDir, "state-dir", "/var/lib/stowage", "folder on the node in which the agent remembers its disks; must outlive it")
	own.StringVar(&o.listen, "listen-address", ":8080", "address of /healthz, /readyz and /metrics")
	own.StringVar(&o.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "kubelet's root directory on the node")
	own.StringVar(&o.kubeletPath, "kubelet-path", "", "where kubelet's root directory is to be found, if not at the same path")
	own.StringVar(&o.proc, "host-proc", "/proc", "where the node's /proc is to be found")
	own.StringVar(&o.sys, "host-sys", "/sys", "where the node's /sys is to be found")
	own.StringVar(&o.fstab, "host-fstab", "/etc/fstab", "where the node's fstab is to be found; empty for none")
	own.DurationVar(&o.recheck, "recheck-period", 0, "how long after a disk has vanished the agent looks again before it believes it (default 5s)")
}

// client is the configuration of clients of the API server.
func (o *options) client() (*rest.Config, error) {
	build := rest.InClusterConfig
	if o.kubeconfig != "" {
		build = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", o.kubeconfig) }
	}
	config, err := build()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("this is not a pod: say which cluster with --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.QPS, config.Burst = o.qps, o.burst
	config.Wrap(metrics.CountRequests)
	config.UserAgent = componentName + "/" + stowageVersion()
	return config, nil
}
