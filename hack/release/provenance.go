// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	predicateType = "https://slsa.dev/provenance/v1"
	// buildType says what the parameters mean and how a release is built from them.
	buildType = "https://stowage.dev/docs/releasing"
	// builder is make release on any machine: files and statement do not depend on it. Who built a release is the subject of
	// a signed attestation.
	builder = "https://stowage.dev/docs/releasing#reproduce"
)

// writeProvenance writes an in-toto statement: by which commit, Go and modules the files and images were made. It has no time
// and no name of a machine, so that it is the same each time.
func (r release) writeProvenance(ctx context.Context, images []image) error {
	subjects, err := r.subjects(images)
	if err != nil {
		return err
	}
	dependencies, err := r.dependencies(ctx)
	if err != nil {
		return err
	}
	parameters := map[string]any{}
	for _, variable := range r.variables() {
		name, value, _ := strings.Cut(variable, "=")
		parameters[name] = value
	}
	external, err := structpb.NewStruct(parameters)
	if err != nil {
		return err
	}
	made := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{BuildType: buildType, ExternalParameters: external, ResolvedDependencies: dependencies},
		RunDetails:      &provenance.RunDetails{Builder: &provenance.Builder{Id: builder}},
	}
	if err := made.Validate(); err != nil {
		return err
	}
	predicate := &structpb.Struct{}
	if err := convert(made, predicate); err != nil {
		return err
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, Subject: subjects, PredicateType: predicateType, Predicate: predicate}
	if err := statement.Validate(); err != nil {
		return err
	}
	text, err := stable(statement)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "provenance.intoto.json"), text, 0o644)
}

// subjects are all files that are in the release by now, and the images.
func (r release) subjects(images []image) ([]*intoto.ResourceDescriptor, error) {
	files, err := r.files()
	if err != nil {
		return nil, err
	}
	var subjects []*intoto.ResourceDescriptor
	for _, name := range files {
		hash, err := sum(filepath.Join(r.out, name))
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": hash}})
	}
	for _, i := range images {
		subjects = append(subjects, &intoto.ResourceDescriptor{
			Name: i.reference, Digest: map[string]string{"sha256": strings.TrimPrefix(i.digest, "sha256:")},
		})
	}
	return subjects, nil
}

// dependencies are the commit, Go, and the files that have the hashes of all modules.
func (r release) dependencies(ctx context.Context) ([]*intoto.ResourceDescriptor, error) {
	toolchain, err := r.goVersion(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.output(ctx, "git", "ls-files", "-z", "go*.sum", "hack/release/go.sum", "hack/tools/go.sum")
	if err != nil {
		return nil, err
	}
	found := []*intoto.ResourceDescriptor{
		{Name: "source", Digest: map[string]string{"gitCommit": r.revision}},
		{Name: toolchain, Uri: "pkg:golang/stdlib@" + strings.TrimPrefix(toolchain, "go")},
	}
	for name := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		hash, err := sum(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		found = append(found, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": hash}})
	}
	return found, nil
}

// convert copies a message into another one that has the same form in JSON.
func convert(from, to proto.Message) error {
	text, err := protojson.Marshal(from)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(text, to)
}

// stable returns a message as JSON. protojson varies its spaces, and the order of maps, between builds.
func stable(message proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fields); err != nil {
		return nil, fmt.Errorf("encode the statement: %w", err)
	}
	return out.Bytes(), nil
}
