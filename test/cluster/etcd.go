// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
)

// SaveEtcd stops kube-apiserver and etcd, and copies what etcd stored into a
// folder that must not exist yet: other clusters may begin with it, see
// Config.EtcdData. Components that need the API server fail until both are
// started again.
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

// loadEtcd puts the configured data where etcd will find it.
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
