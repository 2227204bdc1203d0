// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Connection configures the client of the API server.
type Connection struct {
	// Kubeconfig is a file; empty: the pod's service account.
	Kubeconfig string
	// QPS and Burst limit requests.
	QPS, Burst int32
}

// Connect returns the configuration of the clients of a component.
func Connect(component string, asked Connection) (*rest.Config, error) {
	config, err := Cluster(component, asked.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = float32(asked.QPS), int(asked.Burst)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config, nil
}

// Cluster returns the client configuration of a kubeconfig; if it is empty, that of the pod's
// service account.
func Cluster(component, kubeconfig string) (*rest.Config, error) {
	build := rest.InClusterConfig
	if kubeconfig != "" {
		build = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	}
	config, err := build()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("this process does not run in a pod: use --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.UserAgent = component + "/" + Version()
	return config, nil
}
