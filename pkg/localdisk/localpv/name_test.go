// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localpv

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestNameIsHashedFromNodeClassAndFile: PV name generation hashed correctly using node
// name, storageclass and filename.
func TestNameIsHashedFromNodeClassAndFile(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("5:node1,4:fast,5:disk1,1:1,"))
	if got, want := Name("node1", slot("fast", "disk1"), 1), "local-pv-node1-"+hex.EncodeToString(sum[:])[:32]; got != want {
		t.Errorf("Name = %s, want %s", got, want)
	}
	if got, want := Name("node1", slot("fast", "disk1"), 1), "local-pv-node1-9749d5dae613b03cf117399a7ae5f65c"; got != want {
		t.Errorf("the name of a volume has changed: %s, want %s", got, want)
	}
}

// TestNameOfALongNode: the names of nodes are as long as those of volumes.
func TestNameOfALongNode(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]int{211: 253, 212: len("local-pv-") + 32, 253: len("local-pv-") + 32} {
		name := Name(strings.Repeat("a", length), slot("fast", "disk1"), 1)
		if errs := validation.IsDNS1123Subdomain(name); len(name) != want || len(errs) > 0 {
			t.Errorf("of a node's name of %d characters: %s of %d, want %d; %v", length, name, len(name), want, errs)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	type slotOf struct {
		node, class, name string
		generation        int64
	}
	tests := map[string]struct{ a, b slotOf }{
		"the file's last letter is the other node's first": {
			slotOf{"1node", "fast", "disk1", 1}, slotOf{"node", "fast", "disk11", 1},
		},
		"the node's last letter is the other class's first": {
			slotOf{"nodef", "ast", "disk1", 1}, slotOf{"node", "fast", "disk1", 1},
		},
		"a file that looks like the end of what is hashed": {
			slotOf{"node", "fast", "disk,1:1", 1}, slotOf{"node", "fast", "disk", 1},
		},
		"one disk has the other's number in its generation": {
			slotOf{"node", "fast", "disk1", 1}, slotOf{"node", "fast", "disk", 11},
		},
		"class and file are exchanged": {
			slotOf{"node", "fast", "disk", 1}, slotOf{"node", "disk", "fast", 1},
		},
		"the next generation": {
			slotOf{"node", "fast", "disk", 1}, slotOf{"node", "fast", "disk", 2},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := Name(tc.a.node, slot(tc.a.class, tc.a.name), tc.a.generation)
			b := Name(tc.b.node, slot(tc.b.class, tc.b.name), tc.b.generation)
			if a == b {
				t.Errorf("%v and %v are both named %s", tc.a, tc.b, a)
			}
		})
	}
}

func TestReferenceName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ node, class, name, want string }{
		// FNV-1a of "a" and of nothing, from the algorithm's definition.
		"of one byte": {name: "a", want: "local-pv-e40c292c"},
		"of nothing":  {want: "local-pv-811c9dc5"},
		"two slots with one name": {
			node: "1node", class: "fast", name: "disk1", want: ReferenceName("node", slot("fast", "disk11")),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ReferenceName(tc.node, slot(tc.class, tc.name)); got != tc.want {
				t.Errorf("ReferenceName = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestNamingOfReference(t *testing.T) {
	t.Parallel()
	first := request()
	first.Offer.Naming = Reference
	second := first
	second.Generation = FirstGeneration + 1
	if got, want := mustVolume(t, first).Name, ReferenceName("node1", slot("fast", "disk1")); got != want {
		t.Errorf("the first volume is named %s, want %s", got, want)
	}
	if got, want := mustVolume(t, second).Name, Name("node1", slot("fast", "disk1"), 2); got != want {
		t.Errorf("the successor of a volume that vanished is named %s, want %s", got, want)
	}
}

func TestNodeHashIsALabelValue(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"node1", strings.Repeat("a", 253), ""} {
		hash := NodeHash(node)
		sum := sha256.Sum256([]byte(node))
		if want := hex.EncodeToString(sum[:])[:32]; hash != want {
			t.Errorf("NodeHash(%q) = %s, want %s", node, hash, want)
		}
		if errs := validation.IsValidLabelValue(hash); len(errs) > 0 {
			t.Errorf("NodeHash(%q) is no label value: %v", node, errs)
		}
	}
}

// FuzzNames: names are those of objects, and only equal slots share one.
func FuzzNames(f *testing.F) {
	f.Add("1node", "fast", "disk1", int64(1), "node", "fast", "disk11", int64(1))
	f.Add("node", "fast", "disk,1:1", int64(1), "node", "fast", "disk", int64(1))
	f.Add("", "", "", int64(0), "0:,0:,", "", "", int64(-1))
	f.Fuzz(func(t *testing.T, nodeA, classA, nameA string, genA int64, nodeB, classB, nameB string, genB int64) {
		a, b := slot(classA, nameA), slot(classB, nameB)
		same := nodeA == nodeB && a == b && genA == genB
		if (Name(nodeA, a, genA) == Name(nodeB, b, genB)) != same {
			t.Errorf("%q %q %d and %q %q %d: the same slot %t, the same name %t", nodeA, a, genA, nodeB, b, genB, same, !same)
		}
		for _, name := range []string{Name(nodeA, a, genA), ReferenceName(nodeA, a)} {
			if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 && len(validation.IsDNS1123Subdomain(nodeA)) == 0 {
				t.Errorf("%q is no name: %v", name, errs)
			}
		}
	})
}

func slot(class, name string) disk.Key { return disk.Key{Class: class, Name: name} }
