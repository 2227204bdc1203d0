// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// krewPlugin is a Plugin of krew (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/), as far as it is
// used here.
type krewPlugin struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec krewSpec `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector metav1.LabelSelector `json:"selector"`
	URI      string               `json:"uri"`
	SHA256   string               `json:"sha256"`
	Bin      string               `json:"bin"`
}

const (
	homepage         = "https://stowage.dev"
	shortDescription = "Explain where storage is and why pods wait for it"
	description      = `Says why pods and volumes of Stowage wait, where storage is, what would fit, and
whether the installation is healthy; validates configurations; adopts and
releases volumes. It works with your own rights, or without a cluster on files.`
)

// manifest returns krew's manifest of the archives.
func (p *packing) manifest(packed []archive) ([]byte, error) {
	plugin := krewPlugin{TypeMeta: metav1.TypeMeta{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin"}}
	plugin.Metadata.Name = "stowage"
	plugin.Spec = krewSpec{Version: krewVersion(p.version), Homepage: homepage, ShortDescription: shortDescription, Description: description}
	for _, a := range packed {
		uri := a.file // for krew install --archive
		if p.downloads != "" {
			uri = strings.TrimSuffix(p.downloads, "/") + "/" + a.file
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"os": a.os, "arch": a.arch}},
			URI:      uri, SHA256: a.sha256, Bin: a.binary,
		})
	}
	return yaml.Marshal(plugin)
}

// krewVersion returns a semantic version with the prefix v, which krew requires: a build between releases has
// none.
func krewVersion(of string) string {
	if _, err := version.ParseSemantic(of); err == nil && strings.HasPrefix(of, "v") {
		return of
	}
	return "v0.0.0-build-" + of
}
