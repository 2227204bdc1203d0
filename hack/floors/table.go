// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package floors keeps the product's layout: which package stands on which floor, and what a
// floor may import. Imports go down only, so that what decides (floor 0) can be read, tested
// and fuzzed without what acts. This file is the whole rule book; the test beside it holds
// the source tree against it.
package floors

// Floor is how far a package stands from the pure core.
type Floor int

// The floors, from the top. Imports go to lower numbers, and on floors 2 to 5 never to
// another room of the same number.
const (
	Wiring  Floor = 5 // commands: flags and wiring
	Serving Floor = 4 // secure serving, health checks, leader election
	Adapter Floor = 3 // scheduler plugins, HTTP
	Acting  Floor = 2 // writes to the API or to disks
	Cache   Floor = 1 // informers, indexes, reservations
	Pure    Floor = 0 // decides; neither clock nor client nor disk

	// Leaf packages import nothing of the product outside their own room. Every floor but
	// Pure may import them.
	Leaf Floor = -1
	// Fixture packages are for tests, and are leaves otherwise.
	Fixture Floor = -2
)

// Room gives a floor to a package and everything below its folder.
type Room struct {
	// Path is relative to the module. A * stands for one element: pkg/plugin/* makes each
	// plugin a room of its own.
	Path  string
	Floor Floor
}

// Rooms returns every room of the product. A package below cmd or pkg that none covers fails
// the test: give it a floor here.
func Rooms() []Room {
	return []Room{
		{"cmd/*", Wiring},

		{"pkg/server", Serving},

		{"pkg/plugin/*", Adapter},
		{"pkg/extender", Adapter},

		{"pkg/binder", Acting},
		{"pkg/localprovisioner", Acting},
		{"pkg/blockdev", Acting},
		{"pkg/nodeloss", Acting},
		{"pkg/nodehosts", Acting},
		{"pkg/cleaningjobs", Acting},
		{"pkg/orphancleans", Acting},
		{"pkg/heartbeats", Acting},

		{"pkg/volumecache", Cache},
		{"pkg/diskrecord", Cache},
		{"pkg/diskreports", Cache},

		{"pkg/volume/*", Pure},
		{"pkg/local/*", Pure},

		{"pkg/apis", Leaf},
		{"pkg/metrics", Leaf},
		{"pkg/features", Leaf},
		{"pkg/logkeys", Leaf},

		{"pkg/testing/*", Fixture},
	}
}

// Ban keeps an import out of a part of the tree. Imports are prefixes of whole path elements:
// k8s.io/client-go covers k8s.io/client-go/kubernetes. Test files are exempt unless Tests.
type Ban struct {
	Imports []string
	// On is where the ban holds: paths as in Room; none means everywhere.
	On []string
	// But lists the places that are exempt, as in Room.
	But   []string
	Tests bool
	// Why ends the sentence "must not be imported: ...".
	Why string
}

// Bans returns what no floor number can say.
func Bans() []Ban {
	return []Ban{
		{
			Imports: []string{"k8s.io/kubernetes"},
			But:     []string{"cmd/scheduler", "pkg/apis/config/scheme", "test", "hack"},
			Why:     "plugins are written against k8s.io/kube-scheduler/framework; only cmd/scheduler and pkg/apis/config/scheme meet the scheduler itself",
		},
		{
			Imports: []string{"k8s.io/kube-scheduler/framework"},
			But:     []string{"cmd", "pkg/plugin", "test", "hack"},
			Why:     "only plugins know the scheduling framework, so that everything below them serves the extender and the command line too",
		},
		{
			Imports: []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic", "k8s.io/client-go/rest"},
			On:      []string{"pkg/volumecache"},
			Why:     "floor 1 reads through informers and listers; writing is for floor 2",
		},
		{
			Imports: []string{"net/http"},
			On:      []string{"pkg/binder"},
			Why:     "the binder talks to the API server through its clientset alone",
		},
		{
			Imports: []string{"k8s.io/api", "k8s.io/client-go"},
			On:      []string{"pkg/blockdev"},
			Why:     "devices and mounts know nothing of Kubernetes",
		},
		{
			Imports: []string{"github.com/google/go-cmp"},
			But:     []string{"test"},
			Why:     "go-cmp panics on what it cannot compare: it is for tests",
		},
		{
			Imports: []string{"github.com/stretchr/testify", "github.com/onsi/ginkgo", "github.com/onsi/gomega"},
			Tests:   true,
			Why:     "tests are written with the standard library and go-cmp",
		},
	}
}

// Floor 0 may import, besides other packages of floor 0, the standard library without
// pureBannedStd, and pureAllowed; and among all that these drag in, nothing of
// pureBannedDeps. (k8s.io/api itself drags in klog and net, so only direct imports can be
// held to the stricter rule.)
var (
	pureAllowed = []string{
		"k8s.io/api",
		"k8s.io/apimachinery",
		"k8s.io/component-helpers/scheduling/corev1/nodeaffinity",
	}
	pureBannedStd  = []string{"context", "crypto/rand", "log", "math/rand", "net", "os", "runtime", "syscall"}
	pureBannedDeps = []string{"k8s.io/client-go"}
	// Durations are values; asking what time it is, or waiting, is not for floor 0.
	pureBannedClock = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
)

// Fixtures may be imported by test files, and by everything below these folders.
var fixtureUsers = []string{"test"}
