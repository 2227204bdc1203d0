// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// watchers is how many inotify instances root may have. A node with a provisioner takes 10, a control
// plane 8; Linux allows 128 by default.
const watchers = 2048

const watchersFile = "/proc/sys/fs/inotify/max_user_instances"

// allowWatchers raises the machine's limit for good, if it is lower: other clusters may need it
// when this one ends.
func allowWatchers() error {
	data, err := os.ReadFile(watchersFile)
	if err != nil {
		return fmt.Errorf("read how many inotify instances there may be: %w", err)
	}
	if n, err := strconv.Atoi(string(bytes.TrimSpace(data))); err != nil || n >= watchers {
		return err
	}
	if err := os.WriteFile(watchersFile, []byte(strconv.Itoa(watchers)), 0); err != nil {
		return fmt.Errorf("allow %d inotify instances: %w", watchers, err)
	}
	return nil
}
