// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

const (
	// tailLines and tailBytes limit how much of a log an error message shows.
	tailLines = 15
	tailBytes = 16 << 10
	// dumpLines and dumpBytes limit how much DumpLogs shows of each log.
	dumpLines = 50
	dumpBytes = 256 << 10
)

// DumpLogs writes the end of each component's log to w. It works until Stop,
// and after it when the cluster's folder is kept.
func (c *Cluster) DumpLogs(w io.Writer) error {
	logs, err := filepath.Glob(c.folder.log("*"))
	if err != nil {
		return err
	}
	slices.Sort(logs)
	for _, path := range logs {
		text, err := tail(path, dumpLines, dumpBytes)
		if err != nil {
			return fmt.Errorf("read a component's log: %w", err)
		}
		if text == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "==== last lines of %s ====\n%s\n", path, text); err != nil {
			return err
		}
	}
	return nil
}

// tailMessage is the end of a log as the last part of an error message.
func tailMessage(path string) string {
	text, err := tail(path, tailLines, tailBytes)
	switch {
	case err != nil:
		return "; its log cannot be read: " + err.Error()
	case text == "":
		return "; its log is empty: " + path
	default:
		return fmt.Sprintf("; last lines of %s:\n%s", path, text)
	}
}

// tail returns the last lines of a file, without the final line break.
func tail(path string, lines int, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-limit), limit))
	if err != nil {
		return "", err
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n"), nil
}
