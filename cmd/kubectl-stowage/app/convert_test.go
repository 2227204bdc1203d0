// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConvertValues(t *testing.T) {
	const converted = `provisioner:
  classes:
    fast:
      settings:
        hostDir: /mnt/fast
      storageClass:
        create: true
    local-disks: null
  tolerations: []
`
	const sample = "classes: [{name: fast, hostDir: /mnt/fast, storageClass: true}]\n"
	for name, test := range map[string]struct {
		// file is the content of the file, or in that of the standard input.
		file, in string
		// out and err are printed.
		out, err string
		code     int
	}{
		"a file":                       {file: sample, out: converted},
		"the standard input":           {in: sample, out: converted},
		"as helm get values prints it": {in: "USER-SUPPLIED VALUES:\n" + sample, out: converted},
		"a warning":                    {in: sample + "image: mine", out: converted, err: "warning: image: the provisioner has another image: remove it; if images come from a mirror, set image.registry\n"},
		"all errors, and no values": {
			in: sample + "image: mine\nclases: []\ntolerations: {}", code: 1,
			err: "error: standard input: clases: Forbidden: unknown value: the chart of sig-storage-local-static-provisioner has none of this name: correct or remove it\nstandard input: tolerations: Invalid value: must be a list\n",
		},
		"no YAML":   {in: "a: b: c", code: 1, err: "error: --filename: -: must be a YAML object with Helm values: error converting YAML to JSON: yaml: mapping values are not allowed in this context\n"},
		"no object": {in: "[a]", code: 1, err: "error: --filename: -: must be a YAML object with Helm values: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			from := "-"
			if test.file != "" {
				from = file(t, "values.yaml", test.file)
			}
			var out, errOut bytes.Buffer
			code := Main([]string{"convert-values", "-f", from}, strings.NewReader(test.in), &out, &errOut)
			if diff := cmp.Diff([]any{test.out, test.err, test.code}, []any{out.String(), errOut.String(), code}); diff != "" {
				t.Errorf("output, errors and exit code (-want +got):\n%s", diff)
			}
		})
	}
}
