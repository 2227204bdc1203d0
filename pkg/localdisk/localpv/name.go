// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localpv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// prefix is what the names of local volumes begin with.
const prefix = "local-pv-"

// digits is how many hexadecimal digits of a hash are in a name.
const digits = 32

// maxNodeInName is how long a node's name may be to be part of a volume's.
const maxNodeInName = validation.DNS1123SubdomainMaxLength - len(prefix) - len("-") - digits

// Name returns the name of a slot's volume: "local-pv-", the node's name, "-" and the first
// 128 bits of a SHA-256, in 32 hexadecimal digits. The hash is over node, class, name and
// generation, each with its length in bytes before it, so that no two slots share a name:
// "5:node1,4:fast,5:disk1,1:1,". A node name that is too long is left out.
//
// The node's name is for the admission policy, which cannot compute hashes and allows a
// provisioner the names of its own node only.
//
// A claim that lost its volume silently becomes bound to a new one of the same name. So the
// generation is incremented when a volume has vanished without being released.
func Name(node string, slot disk.Key, generation int64) string {
	var b strings.Builder
	for _, part := range []string{node, slot.Class, slot.Name, strconv.FormatInt(generation, 10)} {
		fmt.Fprintf(&b, "%d:%s,", len(part), part)
	}
	sum := sha256.Sum256([]byte(b.String()))
	hash := hex.EncodeToString(sum[:digits/2])
	if len(node) > maxNodeInName {
		return prefix + hash
	}
	return prefix + node + "-" + hash
}

// ReferenceName is the name that sig-storage-local-static-provisioner gives to a slot's
// volume: "local-pv-" and an FNV-1a of 32 bits over name, node and class, without leading
// zeros. Different slots may share one.
func ReferenceName(node string, slot disk.Key) string {
	h := fnv.New32a()
	for _, part := range []string{slot.Name, node, slot.Class} {
		_, _ = h.Write([]byte(part)) // a hash never fails to take bytes
	}
	return prefix + strconv.FormatUint(uint64(h.Sum32()), 16)
}
