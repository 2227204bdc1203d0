// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// dmi is where the firmware's description of the machine is in sysfs.
const dmi = "class/dmi/id"

// MachineIDFile has the operating system's ID of the machine.
const MachineIDFile = "/etc/machine-id"

var (
	uuidForm      = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	machineIDForm = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// fillers are product UUIDs that several makers left in their firmware, in both byte orders.
var fillers = map[string]bool{
	"03000200-0400-0500-0006-000700080009": true,
	"00020003-0004-0005-0006-000700080009": true,
	"12345678-1234-5678-90ab-cddeefaabbcc": true,
	"78563412-3412-7856-90ab-cddeefaabbcc": true,
	"01234567-89ab-cdef-0123-456789abcdef": true,
	"67452301-ab89-efcd-0123-456789abcdef": true,
	"00112233-4455-6677-8899-aabbccddeeff": true,
	"33221100-5544-7766-8899-aabbccddeeff": true,
	"4c4c4544-0000-2010-8020-80c04f202020": true, // Dell without a service tag
	"4c4c4544-0020-2010-8020-a0c04f202020": true,
}

// ReadMachine returns the machine in identities: a digest of the firmware's product UUID, or,
// if that is missing or a filler, of the operating system's machine ID. sysRoot is where sysfs
// is, idFile the host's /etc/machine-id. Empty means that there is neither.
//
// It is a digest because machine-id(5) requires one. 64 bits suffice, since they only have to
// differ between machines that have disks of the same serial number.
func ReadMachine(sysRoot, idFile string) (string, error) {
	uuid, err := readSmall(filepath.Join(sysRoot, dmi, "product_uuid"))
	if err != nil {
		return "", fmt.Errorf("read the product UUID: %w", err)
	}
	if uuid = strings.ToLower(tidy(uuid)); uuidForm.MatchString(uuid) && distinguishes(uuid) && !fillers[uuid] {
		return digest("product", uuid), nil
	}
	id, err := readSmall(idFile)
	if err != nil {
		return "", fmt.Errorf("read the machine ID: %w", err)
	}
	if id = strings.ToLower(tidy(id)); machineIDForm.MatchString(id) && distinguishes(id) {
		return digest("os", id), nil
	}
	return "", nil
}

// readSmall reads a file; empty if it does not exist.
func readSmall(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENODATA) {
		return "", nil
	}
	return string(b), err
}

func digest(kind, id string) string {
	sum := sha256.Sum256([]byte("stowage.dev machine " + kind + " " + id))
	return hex.EncodeToString(sum[:8])
}
