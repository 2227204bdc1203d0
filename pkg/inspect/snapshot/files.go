// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/version"
)

// indexName is the file of a folder or an archive that describes the snapshot. Without it, the
// kinds of which no file has an object are gaps.
const indexName = "snapshot.json"

// index is the content of indexName.
type index struct {
	Time      time.Time     `json:"time"`
	Server    *version.Info `json:"server,omitempty"`
	Gaps      []Gap         `json:"gaps,omitempty"`
	Absent    []string      `json:"absent,omitempty"`
	Resources []string      `json:"resources"`
}

// Open reads a snapshot from a file with manifests, a folder with such files, or an archive that
// Archive wrote. Manifests are YAML or JSON, of objects or of lists, as kubectl get prints them.
// Objects of other kinds are ignored.
func Open(name string) (*Snapshot, error) {
	o := &opener{s: empty()}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read a snapshot: %w", err)
	case info.IsDir():
		err = o.folder(name)
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
		err = o.archive(name)
	default:
		err = o.file(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read a snapshot from %s: %w", name, err)
	}
	if len(o.s.objects) == 0 {
		return nil, fmt.Errorf("read a snapshot from %s: it has no objects of a kind that is used here; kubectl get nodes,pv,pvc,pods --all-namespaces -o yaml writes some", name)
	}
	o.finish()
	return o.s, nil
}

type opener struct {
	s     *Snapshot
	index *index
}

func (o *opener) folder(name string) error {
	root, err := os.OpenRoot(name)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isManifest(file) {
			return err
		}
		f, err := root.Open(filepath.FromSlash(file))
		if err != nil {
			return err
		}
		defer f.Close()
		return o.read(file, f)
	})
}

func (o *opener) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return o.read(filepath.Base(name), f)
}

func (o *opener) archive(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return err
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeReg && isManifest(header.Name) {
			if err := o.read(header.Name, files); err != nil {
				return err
			}
		}
	}
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// read adds the objects of a file.
func (o *opener) read(name string, content io.Reader) error {
	if path.Base(name) == indexName {
		o.index = &index{}
		if err := json.NewDecoder(content).Decode(o.index); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	documents := utilyaml.NewYAMLOrJSONDecoder(content, 4096)
	for {
		var document runtime.RawExtension
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if raw := bytes.TrimSpace(document.Raw); len(raw) == 0 || string(raw) == "null" {
			continue
		}
		if err := o.document(document.Raw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

var decoder = serializer.NewCodecFactory(scheme).UniversalDeserializer()

// document adds the object, or those of a list.
func (o *opener) document(raw []byte) error {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	if strings.HasSuffix(list.Kind, "List") {
		for _, item := range list.Items {
			if err := o.object(item, list.GroupVersionKind()); err != nil {
				return err
			}
		}
		return nil
	}
	return o.object(raw, schema.GroupVersionKind{})
}

// object adds an object. list is the kind of its list, whose items can lack their own.
func (o *opener) object(raw []byte, list schema.GroupVersionKind) error {
	var defaults *schema.GroupVersionKind
	if item := strings.TrimSuffix(list.Kind, "List"); item != "" {
		defaults = &schema.GroupVersionKind{Group: list.Group, Version: list.Version, Kind: item}
	}
	object, gvk, err := decoder.Decode(raw, defaults, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil
	case err != nil:
		return err
	}
	k, known := byPointer[reflect.TypeOf(object)]
	if !known {
		return nil
	}
	typed, _ := object.(Object)
	if typed.GetName() == "" {
		return fmt.Errorf("a %s has no metadata.name", gvk.Kind)
	}
	if k.Namespaced && typed.GetNamespace() == "" {
		typed.SetNamespace(metav1.NamespaceDefault)
	}
	typed.SetManagedFields(nil)
	identify(typed)
	o.s.read[k.Resource.GroupResource().String()] = true
	o.s.add(k, reflect.ValueOf(typed))
	return nil
}

// finish adds what the index says, or gaps for kinds without objects.
func (o *opener) finish() {
	if o.index == nil {
		for _, k := range Kinds() {
			if resource := k.Resource.GroupResource().String(); !o.s.read[resource] {
				o.s.Gaps = append(o.s.Gaps, Gap{Resource: resource, Reason: "no file has any"})
			}
		}
		return
	}
	o.s.Time, o.s.Server, o.s.Gaps = o.index.Time, o.index.Server, o.index.Gaps
	for _, resource := range o.index.Absent {
		o.s.absent[resource] = true
	}
	for _, resource := range o.index.Resources {
		o.s.read[resource] = true
	}
}
