// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"runtime/debug"
	"strings"

	kubeversion "k8s.io/component-base/version"

	"stowage.dev/stowage/pkg/server/command"
)

// versionText returns the output for a value of the version flag: "true" and "raw"
// request the version; "false" and a version to report (--version=vX.Y.Z) have no output.
func versionText(asked string) string {
	text := fmt.Sprintf("Stowage %s (Kubernetes %s)\n", command.Version(), kubernetesVersion())
	switch asked {
	case "true":
		return text
	case "raw":
		return text + fmt.Sprintf("%#v\n", kubeversion.Get())
	}
	return ""
}

// kubernetesVersion is the version that the build set in component-base, else that of the
// Kubernetes module.
func kubernetesVersion() string {
	stamped := kubeversion.Get().GitVersion
	if !strings.HasPrefix(stamped, "v0.0.0-") {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return "v" + kubeversion.DefaultKubeBinaryVersion
}
