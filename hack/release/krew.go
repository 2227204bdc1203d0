// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// krewPlugin is a Plugin of krew (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/), as far as it is
// used here.
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

const (
	homepage         = "https://stowage.dev"
	shortDescription = "Explain where storage is and why pods wait for it"
	description      = `Says why pods and volumes of Stowage wait, where storage is, what would fit, and
whether the installation is healthy; validates configurations; adopts and
releases volumes. It works with your own rights, or without a cluster on files.`
)

// krewManifest returns krew's manifest of the archives.
func (r release) krewManifest(packed []pluginArchive) ([]byte, error) {
	plugin := krewPlugin{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "stowage"}}
	plugin.Spec = krewSpec{Version: krewVersion(r.version), Homepage: homepage, ShortDescription: shortDescription, Description: description}
	for _, a := range packed {
		uri := a.file // for krew install --archive
		if r.downloads != "" {
			uri = strings.TrimSuffix(r.downloads, "/") + "/" + a.file
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{MatchLabels: map[string]string{"os": a.os, "arch": a.arch}},
			URI:      uri, SHA256: a.sha256, Bin: a.binary,
		})
	}
	return yaml.Marshal(plugin)
}

// krewVersion returns a semantic version with the prefix v, which krew requires: a build between releases has none.
func krewVersion(of string) string {
	if isVersion(of) {
		return of
	}
	return "v0.0.0-build-" + of
}

// isVersion reports whether a version is a semantic one with the prefix v, without a shortened form and without build
// metadata, which the tags of images cannot have.
func isVersion(of string) bool { return semver.IsValid(of) && semver.Canonical(of) == of }
