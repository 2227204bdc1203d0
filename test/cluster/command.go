// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "os"

// StartCommand runs any program as a part of the cluster: it ends with the cluster, and its
// unexpected end is reported like that of a component. name may be used again; args and env
// (NAME=value) are the program's; env extends the caller's environment. Its working folder is
// the cluster's.
func (c *Cluster) StartCommand(name, binary string, args, env []string) (*Process, error) {
	return c.run(run{name: c.numbered(name), binary: binary, args: args, env: append(os.Environ(), env...)})
}
