// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
)

// SaveEtcd stops kube-apiserver and etcd, and copies etcd's data into a folder that must not
// exist yet: other clusters may start with it, see Config.EtcdData. Components that need the
// API server fail until both are started again.
func (c *Cluster) SaveEtcd(ctx context.Context, folder string) error {
	for _, m := range []*Component{c.apiServer, c.etcd} {
		if err := m.Stop(ctx); err != nil {
			return err
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if err := os.CopyFS(folder, os.DirFS(c.folder.etcdData())); err != nil {
		return fmt.Errorf("copy etcd's data: %w", err)
	}
	return nil
}

// loadEtcd copies the configured data to etcd's data folder.
func (c *Cluster) loadEtcd() error {
	if c.config.EtcdData == "" {
		return nil
	}
	if err := os.Mkdir(c.folder.etcdData(), 0o700); err != nil {
		return err
	}
	if err := os.CopyFS(c.folder.etcdData(), os.DirFS(c.config.EtcdData)); err != nil {
		return fmt.Errorf("Config.EtcdData: %w", err)
	}
	return nil
}
