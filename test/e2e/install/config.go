// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package install

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
)

// Namespace is where provisioners and controller are.
const Namespace = "stowage-system"

// Names of the ConfigMaps that components read their configuration from.
const (
	Scheduler  = "stowage-scheduler-config"
	Controller = "stowage-controller-config"
	Extender   = "stowage-extender-config"
)

// Config is what to install. The zero value is manifests/overlays/default, without disks.
type Config struct {
	// Folders of manifests, such as "extender/full"; empty: "overlays/default".
	Folders []string
	// Files of manifests that are in no kustomization, such as "controller/cleaning-jobs.yaml".
	Files []string
	// Parts whose images nodes have; empty: provisioner, controller and scheduler.
	Parts []string
	// Classes replace those that the manifests configure.
	Classes []Class
	// Provisioner has further keys of the provisioner's ConfigMap.
	Provisioner map[string]string
	// Configs are files config.yaml that replace those of the manifests, by ConfigMap.
	Configs map[string]string
	// Nodes are added before anything is applied; the site's tests share them.
	Nodes []realnode.NodeSpec
	// Before is called when the nodes run and nothing is installed, if it is set.
	Before func(context.Context, *realnode.Cluster) error
	// Cluster changes the cluster's configuration, if it is set.
	Cluster func(*realnode.Config)
}

// Class is a class of local volumes: a StorageClass, an entry of storageClassMap and one of
// those that provisioners may publish.
type Class struct {
	Name string
	// Settings are the class's keys in storageClassMap. hostDir must be below /mnt/disks,
	// which provisioners mount; it is made on every node.
	Settings map[string]any
	// Retain is the reclaim policy; Delete otherwise.
	Retain bool
	// Annotations of the StorageClass.
	Annotations map[string]string
}

// Options are those of a cluster on which Config is installed and rolled out. For frame.NewSite;
// frame.NewOn takes the function's result.
func Options(c Config) func() (frame.Options, error) {
	return func() (frame.Options, error) {
		archives, err := archives(c.Parts)
		if err != nil {
			return frame.Options{}, err
		}
		return frame.Options{
			Images: archives,
			Config: c.Cluster,
			Begin:  func(ctx context.Context, on *realnode.Cluster) error { return Apply(ctx, on, c) },
		}, nil
	}
}

// top is the repository, from package e2e, whose tests are all that use this package.
const top = "../.."

var folder = flag.String("images", filepath.Join(top, "bin", "images"), "folder of the images that \"make images\" makes")

// archives are the images of parts, which "make images" has made.
func archives(parts []string) ([]string, error) {
	if len(parts) == 0 {
		parts = []string{"provisioner", "controller", "scheduler"}
	}
	var found []string
	for _, part := range parts {
		file, err := filepath.Abs(filepath.Join(*folder, "stowage-"+part+".tar"))
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("find the image of the %s: %w; run make images, or name their folder by -images", part, err)
		}
		found = append(found, file)
	}
	return found, nil
}
