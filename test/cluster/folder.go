// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// maxFolder limits the length of a folder's path: a unix socket's path has at most 103 bytes on
// the most restrictive system, and the folder's deepest socket is "etcd-peer.sock".
const maxFolder = 103 - len("/etcd-peer.sock")

// folder is the path of a cluster's own folder; its methods return the paths in it.
type folder string

func newFolder(parent string) (folder, error) {
	if parent != "" {
		abs, err := filepath.Abs(parent)
		if err != nil {
			return "", err
		}
		parent = abs
	}
	dir, err := os.MkdirTemp(parent, "stowage-cluster-")
	if err != nil {
		return "", fmt.Errorf("make the cluster's folder: %w", err)
	}
	if len(dir) > maxFolder {
		_ = os.Remove(dir) // empty
		return "", fmt.Errorf("make the cluster's folder: %q is longer than the %d bytes that the path of a unix socket allows: use a shorter Dir", dir, maxFolder)
	}
	return folder(dir), nil
}

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

func (f folder) caCert() string            { return f.path("ca.crt") }
func (f folder) proxyCACert() string       { return f.path("front-proxy-ca.crt") }
func (f folder) serverCert() string        { return f.path("server.crt") }
func (f folder) serverKey() string         { return f.path("server.key") }
func (f folder) kubeletClientCert() string { return f.path("kubelet-client.crt") }
func (f folder) kubeletClientKey() string  { return f.path("kubelet-client.key") }
func (f folder) serviceAccountKey() string { return f.path("service-account.key") }
func (f folder) etcdData() string          { return f.path("etcd") }
func (f folder) etcdSocket() string        { return f.path("etcd.sock") }
func (f folder) etcdPeerSocket() string    { return f.path("etcd-peer.sock") }
func (f folder) stages() string            { return f.path("kwok-stages.yaml") }
func (f folder) log(name string) string    { return f.path(name + ".log") }
