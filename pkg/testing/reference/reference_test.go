// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

type sample struct {
	metav1.TypeMeta `json:",inline"`

	Mode    string          `json:"mode,omitempty"`
	File    string          `json:"file,omitempty"`
	Off     bool            `json:"off,omitempty"`
	QPS     *int32          `json:"qps,omitempty"`
	Burst   *int32          `json:"burst,omitempty"`
	Timeout metav1.Duration `json:"timeout,omitempty"`
	Inner   *inner          `json:"inner,omitempty"`
	Points  []inner         `json:"points,omitempty"`
}

type inner struct {
	At int32 `json:"at"`
}

const right = `# Page

| field | meaning |
| --- | --- |
| ` + "`other`" + ` | of another table |

| field | type | default | meaning |
| --- | --- | --- | --- |
| ` + "`mode` | string | `Full`" + ` | how |
| ` + "`file`" + ` | string | none | a file |
| ` + "`off` | boolean | `false`" + ` | off |
| ` + "`qps` | integer | `5`" + ` | pace |
| ` + "`burst`" + ` | integer | none | at once |
| ` + "`timeout` | duration | `10m0s`" + ` | how long |
| ` + "`inner.at` | integer | `0`" + ` | where |
| ` + "`points`" + ` | list | none | points |
| ` + "`points[].at`" + ` | integer | | where |
`

func TestFaults(t *testing.T) {
	t.Parallel()
	defaulted := sample{Mode: "Full", QPS: ptr.To[int32](5), Timeout: metav1.Duration{Duration: 10 * time.Minute}}
	for name, tc := range map[string]struct {
		page string
		want []string
	}{
		"a page that is right": {page: right},
		"one that is not": {
			page: "| field | type | default |\n| --- | --- | --- |\n| `mode` | string | `Advisory` |\n| `file` | string | `/f` |\n| `gone` | string | none |\n" +
				"| `off` | boolean | `false` |\n| `burst` | integer | |\n| `timeout` | duration | `10m0s` |\n| `inner.at` | integer | `0` |\n| `points` | list | none |\n",
			want: []string{
				"the default of mode is `Full`, not `Advisory`", "file has no default, but the page says `/f`",
				"no row for field qps", "no row for field points[].at", "a row for gone, which is no field",
			},
		},
		"one without a table": {page: "# Page\n", want: []string{"no table begins with " + header}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, faults(tc.page, &defaulted)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
