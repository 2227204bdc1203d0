// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package helperpod

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/pav/report"
)

// most are as many containers as a template may have.
func most() string {
	var b strings.Builder
	for i := range report.MaxContainers - 1 {
		fmt.Fprintf(&b, "{name: c%d, image: i},", i)
	}
	return b.String()
}

func TestRefused(t *testing.T) {
	t.Parallel()
	many := "spec: {initContainers: [{name: first, image: i}], containers: [" + most() + "]}"
	main := func(more string) string { return "spec: {containers: [{name: main, image: i" + more + "}]}" }
	for name, test := range map[string]struct {
		template string
		config   func(*Config)
		staging  bool
		want     []string // type and field
	}{
		"a namespace that is not allowed": {
			template: "{metadata: {namespace: kube-system}, spec: {containers: [{name: main, image: i}]}}",
			config:   func(c *Config) { c.Namespaces = []string{"team"} },
			want:     []string{"FieldValueNotSupported metadata.namespace"},
		},
		"metadata": {
			template: `{metadata: {ownerReferences: [{name: x}], finalizers: [f/f], labels: {stowage.dev/pav-step: x, a: b}, annotations: {container.apparmor.security.beta.kubernetes.io/stowage-pav-reporter: x}}, spec: {}}`,
			want: []string{
				"FieldValueForbidden metadata.annotations[container.apparmor.security.beta.kubernetes.io/stowage-pav-reporter]",
				"FieldValueForbidden metadata.finalizers", "FieldValueForbidden metadata.labels[stowage.dev/pav-step]", "FieldValueForbidden metadata.ownerReferences",
			},
		},
		"pods that never end": {
			template: "spec: {restartPolicy: Always, containers: [{name: main, image: i, restartPolicy: Always}]}",
			want:     []string{"FieldValueNotSupported spec.containers[0].restartPolicy", "FieldValueNotSupported spec.restartPolicy"},
		},
		"a staging pod that ends":            {template: "spec: {activeDeadlineSeconds: 5}", staging: true, want: []string{"FieldValueForbidden spec.activeDeadlineSeconds"}},
		"a staging pod on a node of its own": {template: "spec: {nodeName: n}", staging: true, want: []string{"FieldValueForbidden spec.nodeName"}},
		"Windows":                            {template: "spec: {os: {name: windows}}", want: []string{"FieldValueNotSupported spec.os.name"}},
		"ephemeral containers":               {template: "spec: {ephemeralContainers: [{name: e}]}", want: []string{"FieldValueForbidden spec.ephemeralContainers"}},
		"the volume's name":                  {template: "spec: {volumes: [{name: a}, {name: pav}]}", want: []string{"FieldValueForbidden spec.volumes[1].name"}},
		"the reporter's name": {
			template: "spec: {initContainers: [{name: stowage-pav-reporter}], containers: [{name: stowage-pav-reporter}]}",
			want:     []string{"FieldValueForbidden spec.containers[0].name", "FieldValueForbidden spec.initContainers[0].name"},
		},
		"a mount on the directory":       {template: main(", volumeMounts: [{name: a, mountPath: /data}, {name: b, mountPath: //pav/}]"), want: []string{"FieldValueForbidden spec.containers[0].volumeMounts[1].mountPath"}},
		"a relative mount":               {template: main(", volumeMounts: [{name: a, mountPath: pav}]"), want: []string{"FieldValueForbidden spec.containers[0].volumeMounts[0].mountPath"}},
		"a mount below the directory":    {template: main(", volumeMounts: [{name: a, mountPath: /x/../pav/volume}]"), want: []string{"FieldValueForbidden spec.containers[0].volumeMounts[0].mountPath"}},
		"a device below the directory":   {template: main(", volumeDevices: [{name: a, devicePath: /pav/volume}]"), want: []string{"FieldValueForbidden spec.containers[0].volumeDevices[0].devicePath"}},
		"a message in the directory":     {template: main(", terminationMessagePath: /pav/error"), want: []string{"FieldValueForbidden spec.containers[0].terminationMessagePath"}},
		"too many containers":            {template: many, want: []string{"FieldValueTooMany spec.containers"}},
		"a creation pod with a volume":   {template: plain, config: func(c *Config) { c.Volume = &Volume{} }, want: []string{"InternalError "}},
		"a staging pod without a volume": {template: plain, config: func(c *Config) { c.Step = Staging }, want: []string{"InternalError "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, root := config(), "spec.volumeCreation.podTemplate"
			if test.staging {
				c = stagingConfig()
			}
			if test.config != nil {
				test.config(&c)
			}
			if c.Step == Staging {
				root = "spec.volumeStaging.podTemplate"
			}
			pod, errs := Build(template(t, test.template), c)
			if pod != nil {
				t.Errorf("made a pod %+v", pod)
			}
			var got []string
			for _, err := range errs {
				got = append(got, fmt.Sprintf("%s %s", string(err.Type), strings.TrimPrefix(strings.TrimPrefix(err.Field, root), ".")))
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%v", diff, errs)
			}
		})
	}
}

// TestAccepted: templates that look like ones that are refused make valid pods.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"paths beside the directory":    "spec: {volumes: [{name: a, emptyDir: {}}], containers: [{name: main, image: i, volumeMounts: [{name: a, mountPath: /pav2}, {name: a, mountPath: /data/pav}]}]}",
		"a node without a selected one": "spec: {nodeName: n, containers: [{name: main, image: i}]}",
		"a deadline of a pod that ends": "spec: {activeDeadlineSeconds: 5, os: {name: linux}, containers: [{name: main, image: i}]}",
		"a sidecar":                     "spec: {initContainers: [{name: s, image: i, restartPolicy: Always}], containers: [{name: main, image: i}]}",
		"resources of the pod":          "spec: {resources: {requests: {cpu: 1m, memory: 1Mi}, limits: {cpu: 1m, memory: 1Mi}}, containers: [{name: main, image: i}]}",
		"as many containers as allowed": "spec: {containers: [" + most() + "]}",
		"restricted":                    "spec: {hostUsers: false, securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}, fsGroup: 7}, containers: [{name: main, image: i}]}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := build(t, template(t, text), config())
			for _, err := range invalid(t, pod) {
				t.Errorf("the API server refuses the pod: %v", err)
			}
		})
	}
}
