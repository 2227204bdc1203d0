// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/render"
)

const renderDescription = `render evaluates the templates of one step of a PavProvisioner without a cluster and prints
the result. It also checks the templates of the other steps. Errors name the field, and the
line and the column of its template.

The variables come from manifests: a claim and a class for validation, creation and deletion,
a PersistentVolume for the validation of a static volume, and a claim, a PersistentVolume and a
node for staging and unstaging. A claim without namespace or UID is in the namespace default
and has a UID of zeros. Instead, a file with any variables can be given.

A file may have several YAML documents; the one of the kind that is needed is used.`

// renderOptions are the flags of render.
type renderOptions struct {
	file, step, output         string
	claim, class, volume, node string
	context                    string
	lookup                     []string
}

func newPavCommand() *cobra.Command {
	o := &renderOptions{}
	cmd := &cobra.Command{
		Use:   "render -f PROVISIONER --step STEP [--claim F] [--class F] [--volume F] [--node F] [--context F]",
		Short: "Print an evaluated step of a PavProvisioner",
		Long:  renderDescription,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", "file with the PavProvisioner")
	flags.StringVar(&o.step, "step", "", "validation, creation, deletion, staging or unstaging")
	flags.StringVarP(&o.output, "output", "o", "yaml", "yaml or json")
	flags.StringVar(&o.claim, "claim", "", "file with the PersistentVolumeClaim")
	flags.StringVar(&o.class, "class", "", "file with the StorageClass")
	flags.StringVar(&o.volume, "volume", "", "file with the PersistentVolume")
	flags.StringVar(&o.node, "node", "", "file with the Node")
	flags.StringVar(&o.context, "context", "", "file with the variables, a YAML object, instead of manifests")
	flags.StringArrayVar(&o.lookup, "lookup", nil, "file with a PersistentVolumeClaim that get_pvc finds; may be given more than once")
	for _, name := range []string{"claim", "class", "volume", "node"} {
		cmd.MarkFlagsMutuallyExclusive("context", name)
	}
	for _, name := range []string{"filename", "step"} {
		_ = cmd.MarkFlagRequired(name) // fails for unknown flags only
	}
	pav := &cobra.Command{
		Use: "pav", Short: "Tools for pod-templated volume provisioners", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	pav.AddCommand(cmd)
	return pav
}

// renderSteps are the values of --step.
var renderSteps = map[string]struct {
	name     stowage.PavStepName
	evaluate func(render.Request) (any, error)
}{
	"validation": {stowage.PavStepValidation, func(r render.Request) (any, error) { return render.Validation(r) }},
	"creation":   {stowage.PavStepCreation, func(r render.Request) (any, error) { return render.Creation(r) }},
	"deletion":   {stowage.PavStepDeletion, func(r render.Request) (any, error) { return render.Deletion(r) }},
	"staging":    {stowage.PavStepStaging, func(r render.Request) (any, error) { return render.Staging(r) }},
	"unstaging":  {stowage.PavStepUnstaging, func(r render.Request) (any, error) { return render.Unstaging(r) }},
}

func (o *renderOptions) run(out io.Writer) error {
	step, ok := renderSteps[o.step]
	if !ok {
		return fmt.Errorf("--step: must be one of %v, and is %q", slices.Sorted(maps.Keys(renderSteps)), o.step)
	}
	encode, ok := map[string]func(any) ([]byte, error){"yaml": yaml.Marshal, "json": indented}[o.output]
	if !ok {
		return fmt.Errorf("--output: must be yaml or json, and is %q", o.output)
	}
	provisioner, err := readProvisioner(o.file)
	if err != nil {
		return err
	}
	var invalid []error
	for _, err := range render.Check(&provisioner.Spec) {
		invalid = append(invalid, err)
	}
	if len(invalid) > 0 {
		return errors.Join(invalid...)
	}
	request := render.Request{Spec: &provisioner.Spec}
	if request.Variables, err = o.variables(step.name); err != nil {
		return err
	}
	if request.GetClaim, err = o.claims(); err != nil {
		return err
	}
	result, err := step.evaluate(request)
	if err != nil {
		return err
	}
	text, err := encode(result)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// indented returns JSON without the escapes for HTML, which hide what a shell script says.
func indented(value any) ([]byte, error) {
	escaped, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(escaped, &tree); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(tree)
	return text.Bytes(), err
}

// variables returns those of a step, from --context or from the manifests.
func (o *renderOptions) variables(step stowage.PavStepName) (map[string]any, error) {
	if o.context != "" {
		documents, err := readDocuments(o.context)
		if err != nil {
			return nil, err
		}
		if len(documents) != 1 {
			return nil, fmt.Errorf("%s: must have one YAML document, and has %d", o.context, len(documents))
		}
		return documents[0], nil
	}
	var objects render.Objects
	for _, manifest := range []struct {
		file, kind string
		into       *map[string]any
	}{
		{o.claim, "PersistentVolumeClaim", &objects.Claim},
		{o.class, "StorageClass", &objects.Class},
		{o.volume, "PersistentVolume", &objects.Volume},
		{o.node, "Node", &objects.Node},
	} {
		if manifest.file == "" {
			continue
		}
		var err error
		if *manifest.into, err = readManifest(manifest.file, manifest.kind); err != nil {
			return nil, err
		}
	}
	if objects.Claim != nil {
		claim := unstructured.Unstructured{Object: objects.Claim}
		withNamespace(&claim)
		if claim.GetUID() == "" {
			claim.SetUID("00000000-0000-0000-0000-000000000000")
		}
	}
	return render.Variables(step, objects)
}

func withNamespace(claim *unstructured.Unstructured) {
	if claim.GetNamespace() == "" {
		claim.SetNamespace("default")
	}
}

// claims returns the function that finds the claims of --lookup.
func (o *renderOptions) claims() (func(namespace, name string) (map[string]any, error), error) {
	found := map[string]map[string]any{}
	for _, file := range o.lookup {
		object, err := readManifest(file, "PersistentVolumeClaim")
		if err != nil {
			return nil, err
		}
		claim := unstructured.Unstructured{Object: object}
		withNamespace(&claim)
		found[claim.GetNamespace()+"/"+claim.GetName()] = object
	}
	return func(namespace, name string) (map[string]any, error) {
		if claim := found[namespace+"/"+name]; claim != nil {
			return claim, nil
		}
		return nil, fmt.Errorf("no file of --lookup has the claim %s/%s", namespace, name)
	}, nil
}

func readProvisioner(file string) (*stowage.PavProvisioner, error) {
	object, err := readManifest(file, "PavProvisioner")
	if err != nil {
		return nil, err
	}
	if want, got := stowage.SchemeGroupVersion.String(), object["apiVersion"]; got != want {
		return nil, fmt.Errorf("%s: apiVersion must be %s, and is %v", file, want, got)
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	provisioner := &stowage.PavProvisioner{}
	unknown, err := kjson.UnmarshalStrict(text, provisioner)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return provisioner, nil
}

// readManifest returns the object of a kind in a file.
func readManifest(file, kind string) (map[string]any, error) {
	documents, err := readDocuments(file)
	if err != nil {
		return nil, err
	}
	var kinds []any
	var found []map[string]any
	for _, document := range documents {
		kinds = append(kinds, document["kind"])
		if document["kind"] == kind {
			found = append(found, document)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s: must have one object of kind %s, and has kinds %v", file, kind, kinds)
	}
	return found[0], nil
}

// readDocuments returns the YAML documents of a file that are not empty, in the shape of JSON. Like
// kubectl it lets keys override those of a merge.
func readDocuments(file string) ([]map[string]any, error) {
	parts, err := splitDocuments(file)
	if err != nil {
		return nil, err
	}
	var documents []map[string]any
	for _, part := range parts {
		text, err := yaml.YAMLToJSON(part)
		var document map[string]any
		if err == nil {
			err = utiljson.Unmarshal(text, &document)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if document != nil {
			documents = append(documents, document)
		}
	}
	return documents, nil
}

// splitDocuments returns the YAML documents of a file that are more than comments.
func splitDocuments(file string) (documents [][]byte, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		part, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		case !isBlank(part):
			documents = append(documents, part)
		}
	}
}

// isBlank reports whether a YAML document has only comments and blank lines.
func isBlank(document []byte) bool {
	for line := range bytes.Lines(document) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && string(line) != "---" {
			return false
		}
	}
	return true
}
