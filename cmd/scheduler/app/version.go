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

// versionText answers the value of the version flag: "true" and "raw" ask for
// the version; "false" and a version to report (--version=vX.Y.Z) do not, and get
// no text.
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

// kubernetesVersion is what the build set in component-base, else the version of
// the Kubernetes module compiled in.
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
