// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command nodeinit is process 1 of a real node: it is started in new namespaces, makes a root
// file system for them out of the machine's programs and the node's own folders, reports that it
// is ready, and then reaps orphaned processes until a signal ends it. Package realnode starts it.
//
//	nodeinit FILE    the file has the JSON of layout.Node
//	nodeinit         holds the namespaces that it was started in, as process 1 of a pod does
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/cluster/realnode/layout"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	if len(os.Args) > 1 {
		if err := becomeNode(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	}
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects all children that have ended.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

func becomeNode(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var n layout.Node
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if err := enterRoot(n); err != nil {
		return err
	}
	if err := setKernel(n); err != nil {
		return err
	}
	return notifyReady(layout.NotifySocket)
}

// setKernel sets what belongs to the node's namespaces.
func setKernel(n layout.Node) error {
	if err := syscall.Sethostname([]byte(n.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("turn on forwarding: %w", err)
	}
	return nil
}

// notifyReady notifies the socket as a service notifies systemd when it is ready.
func notifyReady(socket string) error {
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("READY=1"))
	return err
}

// mount is one call of mount(2); target is below the new root.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// enterRoot makes the node's root file system in n.Root and moves into it. The machine's own
// file systems, and later mounts in them, are not visible any more.
func enterRoot(n layout.Node) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount(n.Root, n.Root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", n.Root, err)
	}
	mounts, err := programs(n.Root)
	if err != nil {
		return err
	}
	for _, m := range slices.Concat(mounts, ownMounts(n)) {
		if err := m.do(n.Root); err != nil {
			return err
		}
	}
	if err := pivot(n.Root); err != nil {
		return err
	}
	// Mounts of pods with propagation must reach the node and other pods.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	return nil
}

// programs shows the machine's programs and libraries: each top-level folder that has any is
// bound read-only, and the links there are recreated.
func programs(root string) ([]mount, error) {
	var mounts []mount
	for _, name := range []string{"bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr"} {
		info, err := os.Lstat("/" + name)
		if err != nil {
			continue // not every machine has all of them
		}
		if info.Mode()&os.ModeSymlink == 0 {
			mounts = append(mounts,
				mount{source: "/" + name, target: name, flags: unix.MS_BIND | unix.MS_REC},
				mount{target: name, flags: unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY})
			continue
		}
		to, err := os.Readlink("/" + name)
		if err != nil {
			return nil, err
		}
		link := filepath.Join(root, name)
		if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		if err := os.Symlink(to, link); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

// ownMounts are the kernel's file systems, the machine's devices and control groups, and the
// node's own /etc over the machine's.
func ownMounts(n layout.Node) []mount {
	return []mount{
		{source: "proc", target: "proc", kind: "proc"},
		{source: n.BootID, target: "proc/sys/kernel/random/boot_id", flags: unix.MS_BIND},
		{source: "sysfs", target: "sys", kind: "sysfs"},
		{source: "/sys/fs/cgroup", target: "sys/fs/cgroup", flags: unix.MS_BIND | unix.MS_REC},
		{source: "/dev", target: "dev", flags: unix.MS_BIND | unix.MS_REC},
		{source: "tmpfs", target: "run", kind: "tmpfs", data: "mode=755"},
		{source: "tmpfs", target: "tmp", kind: "tmpfs", data: "mode=1777"},
		{source: n.Kubernetes, target: layout.Kubernetes, flags: unix.MS_BIND},
		{
			source: "overlay", target: "etc", kind: "overlay",
			data: fmt.Sprintf("lowerdir=/etc,upperdir=%s,workdir=%s", n.Etc, n.EtcWork),
		},
	}
}

func (m mount) do(root string) error {
	target := filepath.Join(root, m.target)
	if m.flags&unix.MS_REMOUNT == 0 {
		if _, err := os.Lstat(target); err != nil {
			if err := os.MkdirAll(target, 0o755); err != nil {
				return err
			}
		}
	}
	if err := unix.Mount(m.source, target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.source, target, err)
	}
	return nil
}

// pivot makes root the root of this mount namespace and unmounts all others.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root is stacked on the new one, and unmounted from there.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make %s the root: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the machine's file systems: %w", err)
	}
	return os.Chdir("/")
}
