// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"testing"
)

const plainDrive = `
/dev/sda:

ATA device, with non-removable media
	Model Number:       A Drive
Capabilities:
	LBA, IORDY(can be disabled)
Commands/features:
	Enabled	Supported:
	   *	SMART feature set
	    	Security Mode feature set
Security: 
	Master password revision code = 65534
		supported
	not	enabled
	not	locked
	not	frozen
	not	expired: security count
		supported: enhanced erase
	112min for SECURITY ERASE UNIT. 112min for ENHANCED SECURITY ERASE UNIT.
Logical Unit WWN Device Identifier: 50014ee0
	NAA		: 5
Checksum: correct
`

func TestParseSecurity(t *testing.T) {
	tests := map[string]struct {
		out  string
		want security
	}{
		"a drive that can erase itself": {plainDrive, security{supported: true, enhanced: true}},
		"a frozen drive with a password": {
			"Security: \n\tMaster password revision code = 65534\n\t\tsupported\n\t\tenabled\n\tnot\tlocked\n\t\tfrozen\n\tnot\texpired: security count\n\tnot\tsupported: enhanced erase\n\tSecurity level high\n",
			security{supported: true, enabled: true, frozen: true},
		},
		"a locked drive whose security count expired": {
			"Security: \n\t\tsupported\n\t\tenabled\n\t\tlocked\n\tnot\tfrozen\n\t\texpired: security count\n",
			security{supported: true, enabled: true, locked: true, expired: true},
		},
		"words of other sections are ignored": {"Capabilities:\n\tsupported\n\tfrozen\n", security{}},
		"a drive that supports none":          {"Security: \n\tnot\tsupported\n", security{}},
		"a device that is no ATA drive":       {"\n/dev/nvme0n1:\n", security{}},
		"nothing":                             {"", security{}},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			if got := parseSecurity([]byte(s.out)); got != s.want {
				t.Errorf("got %+v, want %+v", got, s.want)
			}
		})
	}
}
