// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/server/command"
)

// apiFlags say where the API server is, and how much may be asked of it.
type apiFlags struct {
	kubeconfig string
	qps        float32
	burst      int
}

// Of a tool, which is run once for the whole cluster: 10,000 volumes that are patched and
// deleted are 100 s of requests. An agent, of which there are as many as nodes, has less.
const (
	toolQPS   = 200
	toolBurst = 400
)

func (f *apiFlags) add(flags *pflag.FlagSet, qps float32, burst int) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file; without one the pod's service account is used")
	flags.Float32Var(&f.qps, "kube-api-qps", qps, "requests a second to the API server")
	flags.IntVar(&f.burst, "kube-api-burst", burst, "requests at once to the API server")
}

// client is the configuration of clients of the API server.
func (f *apiFlags) client() (*rest.Config, error) {
	config, err := command.Cluster(componentName, f.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = f.qps, f.burst
	config.Wrap(metrics.CountRequests)
	return config, nil
}

// clientset is a client of the API server.
func (f *apiFlags) clientset() (kubernetes.Interface, error) {
	config, err := f.client()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}
