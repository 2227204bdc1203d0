// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package layers checks the product's layout: which package is in which layer, and what a
// layer may import. Imports go to lower layers only, so that the code that decides (layer 0)
// can be read, tested and fuzzed without the code that acts. This file has all rules; a test
// checks the source tree against them.
package layers

// Layer is the distance of a package from the pure core.
type Layer int

// The layers, from the top. Imports go to lower numbers, and in layers 2 to 5 never to another
// package of the same number.
const (
	Wiring  Layer = 5 // commands: flags and wiring
	Serving Layer = 4 // secure serving, health checks, leader election
	Adapter Layer = 3 // scheduler plugin, extender protocol, CSI
	Acting  Layer = 2 // writes to the API or to disks
	Cache   Layer = 1 // informers, indexes, reservations
	Pure    Layer = 0 // decides, without clock, client or disk

	// Leaf packages import nothing of the product outside their own folder. Every layer but
	// Pure may import them.
	Leaf Layer = -1
	// Keys are the label, annotation and finalizer keys and the stowage.dev API types, which
	// every layer may import.
	Keys Layer = -2
)

// Package gives a layer to a package and everything below its folder.
type Package struct {
	// Path is relative to the module. A * stands for one element: cmd/* has each command as a
	// package of its own.
	Path  string
	Layer Layer
}

// Packages returns the layers of the product's packages. The first entry that covers a package
// counts. A package below cmd or pkg that none covers fails the test: add it here.
func Packages() []Package {
	return []Package{
		{"cmd/*", Wiring},

		{"pkg/server", Serving},

		{"pkg/scheduling/volumetopology", Adapter},
		{"pkg/scheduling/extender", Adapter},
		{"pkg/scheduling/binder", Acting},
		{"pkg/scheduling/schedulerconfig", Acting},
		{"pkg/scheduling/volumecache", Cache},
		{"pkg/scheduling/*", Pure},

		{"pkg/localdisk/provisioner", Acting},
		{"pkg/localdisk/migrate", Acting},
		{"pkg/localdisk/device/mounts", Leaf},
		{"pkg/localdisk/device", Acting},
		{"pkg/localdisk/diskrecord", Cache},
		{"pkg/localdisk/diskreports", Cache},
		{"pkg/localdisk/*", Pure},

		{"pkg/pav/nodeservice", Adapter},
		{"pkg/pav/pavdir", Cache}, // reads only
		{"pkg/pav/pavclient", Cache},
		{"pkg/pav/*", Pure},

		{"pkg/controller/*/rules", Pure},
		{"pkg/controller/pav/*/rules", Pure},
		{"pkg/controller/pav/podstep", Pure},
		{"pkg/controller/claimbinder", Adapter}, // of the binder, like the scheduler's plugin
		{"pkg/controller/*", Acting},

		{"pkg/inspect/guide", Leaf},
		{"pkg/inspect/format", Leaf},
		{"pkg/inspect/snapshot", Cache},
		{"pkg/inspect/localdisks", Acting}, // reads only
		{"pkg/inspect/simulate", Acting},
		{"pkg/inspect/live", Acting}, // reads only
		{"pkg/inspect/*", Adapter},

		{"pkg/apis/wellknown", Keys},
		{"pkg/apis/stowage", Keys},
		{"pkg/apis", Leaf},
		{"pkg/loop", Leaf},
		{"pkg/metrics", Leaf},
		{"pkg/logkeys", Leaf},
		{"pkg/recorder", Leaf},

		{"manifests", Leaf}, // embeds some of them

		{"pkg/testing/*", Leaf},
	}
}

// Ban keeps an import out of a part of the tree. Imports are prefixes of whole path elements:
// k8s.io/client-go covers k8s.io/client-go/kubernetes. Test files are exempt.
type Ban struct {
	Imports []string
	// On is where the ban holds: paths as in Package; none means everywhere.
	On []string
	// But lists the places that are exempt, as in Package.
	But []string
	// Why ends the sentence "a.go imports b: ...".
	Why string
}

// Bans returns the rules that layers cannot express.
func Bans() []Ban {
	return []Ban{
		{
			Imports: []string{"k8s.io/kubernetes", "stowage.dev/kubecompat/scheduler", "stowage.dev/kubecompat/schedulerperf"},
			But:     []string{"cmd/scheduler", "cmd/kubectl-stowage", "pkg/scheduling/schedulerconfig", "pkg/inspect/simulate", "pkg/apis/config/scheme", "test", "hack"},
			Why:     "plugins are written against k8s.io/kube-scheduler/framework; only what runs or configures the scheduler imports it",
		},
		{
			Imports: []string{"k8s.io/kube-scheduler/framework", "stowage.dev/kubecompat/plugin"},
			But:     []string{"cmd", "pkg/scheduling/volumetopology", "pkg/inspect/simulate", "test", "hack"},
			Why:     "only plugins import the scheduling framework; the extender and the command line use the packages below them",
		},
		{
			Imports: []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic", "k8s.io/client-go/rest"},
			On:      []string{"pkg/scheduling/volumecache"},
			Why:     "layer 1 reads through informers and listers; writing is for layer 2",
		},
		{
			Imports: []string{"net/http"},
			On:      []string{"pkg/scheduling/binder"},
			Why:     "the binder accesses the API server only through its clientset",
		},
		{
			Imports: []string{"stowage.dev/stowage/pkg/localdisk/provisioner"},
			On:      []string{"pkg/localdisk/provisioner/scan", "pkg/localdisk/provisioner/clean", "pkg/localdisk/provisioner/status", "pkg/localdisk/provisioner/inventory", "pkg/localdisk/provisioner/diskhealth"},
			Why:     "scan, clean, status, inventory and diskhealth know the provisioner and each other by their own interfaces only",
		},
		{
			Imports: []string{"k8s.io/api", "k8s.io/client-go"},
			On:      []string{"pkg/localdisk/device"},
			Why:     "packages of devices and mounts do not depend on Kubernetes",
		},
		{
			Imports: []string{"k8s.io"},
			On:      []string{"cmd/pav-reporter", "pkg/pav/pavdir", "pkg/pav/report"},
			Why:     "the reporter runs once a second as a probe; it does not depend on Kubernetes, which keeps it small",
		},
		{
			Imports: []string{
				"k8s.io/apiserver", "k8s.io/client-go/informers", "k8s.io/client-go/kubernetes", "k8s.io/client-go/tools/events",
				"k8s.io/client-go/tools/leaderelection", "k8s.io/client-go/tools/record", "stowage.dev/stowage/pkg/server/leader",
			},
			On:  []string{"cmd/csi", "pkg/pav", "pkg/server", "pkg/loop"},
			But: []string{"pkg/server/leader"},
			Why: "stowage-csi runs on every node; the types and clients of all Kubernetes APIs take memory",
		},
		{
			Imports: []string{"stowage.dev/stowage/pkg/testing"},
			But:     []string{"pkg/testing", "test"},
			Why:     "fixtures are for test files and test/",
		},
	}
}

// Layer 0 may import, besides other packages of layer 0, the standard library without
// pureBannedStd, and pureAllowed; and among all that these depend on, nothing of
// pureBannedDeps. (k8s.io/api itself depends on klog and net, so only direct imports can be
// held to the stricter rule.) What it may call is for golangci-lint: .golangci.yml.
var (
	pureAllowed = []string{
		"k8s.io/api",
		"k8s.io/apimachinery",
		"k8s.io/component-helpers/scheduling/corev1/nodeaffinity",
		"go.yaml.in/yaml/v2",
		"sigs.k8s.io/json",
	}
	pureBannedStd  = []string{"context", "crypto/rand", "log", "math/rand", "net", "os", "runtime", "syscall"}
	pureBannedDeps = []string{"k8s.io/client-go"}
)
