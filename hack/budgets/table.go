// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// budget is how long something may take on two idle processors when all caches are warm:
// a suite, which is a group of packages, or a stage of .ci/run, which has none.
type budget struct {
	name string
	// packages are folders of the module; "/..." at the end includes what is below. A
	// package belongs to the first suite that names it.
	packages []string
	limit    time.Duration
}

// suites and stages are all budgets. A change that makes a suite slower than its budget shortens
// another test, moves iterations to `make soak`, or raises the number here; the commit
// message gives the reason. The suites of `make test` fit into its stage, in which two
// packages run at a time but for unit tests and benchmarks.
var (
	suites = []budget{
		{"unit tests", []string{"pkg/...", "cmd/...", "hack/...", "test/await", "test/deadline", "test/requirements", "test/perf/figures", "test/perf/page", "test/perf/parts", "test/perf/source"}, 120 * time.Second},
		{"test cluster", []string{"test/cluster/..."}, 60 * time.Second},
		{"benchmarks", []string{"test/perf/..."}, 115 * time.Second},
		{"scheduling", []string{"test/integration/scheduling", "test/integration/provisioning", "test/integration/fixture"}, 90 * time.Second},
		{"extender", []string{"test/integration/extender"}, 150 * time.Second},
		{"faults of the scheduler", []string{"test/integration/faults"}, 200 * time.Second},
		{"disks", []string{"test/integration/disks", "test/integration/provisioner", "test/integration/takeover"}, 125 * time.Second},
		{"faults of disks", []string{"test/integration/diskfaults", "test/integration/diskstress"}, 190 * time.Second},
		{"controllers", []string{"test/integration/nodeloss", "test/integration/cleaningjobs"}, 100 * time.Second},
		{"manifests and rights", []string{"test/integration/..."}, 130 * time.Second},
		{"end to end", []string{"test/e2e/..."}, 9 * time.Minute},
	}
	stages = []budget{
		{"make test", nil, 15 * time.Minute},
		{"older minors", nil, 3 * time.Minute},
		{"make verify", nil, 5 * time.Minute},
		{"make e2e", nil, 12 * time.Minute},
		{"all of .ci/run", nil, 35 * time.Minute},
	}
)
