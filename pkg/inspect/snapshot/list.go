// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// protobufPrefix is at the beginning of an answer in protobuf. A runtime.Unknown follows, whose raw bytes are a list.
const protobufPrefix = "k8s\x00"

// Numbers of the fields of a runtime.Unknown, and of lists, which all have the same (see getStreamingListData of
// apimachinery's encoder).
const (
	unknownType, unknownRaw = 1, 2
	listMeta, listItems     = 1, 2
)

// list is an answer of the API server, which is decoded while it is received, object by object: the decoder of apimachinery
// has all of the encoded list in memory, twice, and decodes fields that are dropped afterwards.
type list struct {
	kind    Kind
	dropped fields // are not decoded
	from    *bufio.Reader
	body    *bytes.Buffer // the message that is being decoded

	read int64 // bytes
	// meta and items, which are pointers, are the result.
	meta  metav1.ListMeta
	items []reflect.Value
}

// request sends a request and decodes the answer.
func (l *list) request(ctx context.Context, request *rest.Request) error {
	stream, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	l.from = bufio.NewReaderSize(stream, 64<<10)
	if prefix, _ := l.from.Peek(len(protobufPrefix)); string(prefix) == protobufPrefix {
		err = l.protobuf()
	} else {
		err = l.json()
	}
	if err != nil {
		return fmt.Errorf("read the answer of the API server: %w", err)
	}
	return nil
}

// json decodes an answer of a kind that the API server does not have in protobuf.
func (l *list) json() error {
	l.body.Reset()
	if _, err := l.body.ReadFrom(l.from); err != nil {
		return err
	}
	decoded := reflect.New(l.kind.list)
	if _, _, err := decoder.Decode(l.body.Bytes(), nil, decoded.Interface().(runtime.Object)); err != nil {
		return err
	}
	l.meta.Continue = decoded.Interface().(metav1.ListInterface).GetContinue()
	items := decoded.Elem().FieldByName("Items")
	for i := range items.Len() {
		l.dropped.clear(items.Index(i))
		l.items = append(l.items, items.Index(i).Addr())
	}
	return nil
}

// protobuf decodes an answer in protobuf.
func (l *list) protobuf() error {
	if _, err := l.from.Discard(len(protobufPrefix)); err != nil {
		return err
	}
	for complete := false; ; {
		if _, err := l.from.Peek(1); complete && errors.Is(err, io.EOF) {
			return nil
		}
		number, size, err := l.field()
		switch {
		case err != nil:
		case number == unknownRaw:
			err = l.objects(l.read + size)
			complete = true
		default:
			err = l.message(size)
		}
		if err == nil && number == unknownType {
			err = l.checkType()
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}

// checkType returns an error if the message is the type of another list than the one that was requested.
func (l *list) checkType() error {
	meta := &runtime.TypeMeta{}
	if err := meta.Unmarshal(l.body.Bytes()); err != nil {
		return err
	}
	if want := l.kind.Kind + "List"; meta.Kind != want {
		return fmt.Errorf("the answer is a %s and not a %s", meta.Kind, want)
	}
	return nil
}

// objects decodes the list itself, which ends after that many bytes of the answer.
func (l *list) objects(end int64) error {
	for l.read < end {
		number, size, err := l.field()
		if err != nil {
			return err
		}
		if size > end-l.read {
			return io.ErrUnexpectedEOF
		}
		if err := l.message(size); err != nil {
			return err
		}
		switch number {
		case listMeta:
			err = l.meta.Unmarshal(l.body.Bytes())
		case listItems:
			err = l.item()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// item decodes the message as an object.
func (l *list) item() error {
	left, err := l.dropped.cut(l.body.Bytes())
	if err != nil {
		return err
	}
	object := reflect.New(l.kind.pointer.Elem())
	if err := object.Interface().(interface{ Unmarshal([]byte) error }).Unmarshal(left); err != nil {
		return err
	}
	l.items = append(l.items, object)
	return nil
}

// field reads the number and the size of a field. All fields that are read here have a size.
func (l *list) field() (protowire.Number, int64, error) {
	tag, err := binary.ReadUvarint(l)
	if err != nil {
		return 0, 0, err
	}
	number, kind := protowire.DecodeTag(tag)
	if kind != protowire.BytesType {
		return 0, 0, fmt.Errorf("field %d has type %d of protobuf", number, kind)
	}
	size, err := binary.ReadUvarint(l)
	if err == nil && int64(size) < 0 {
		err = fmt.Errorf("field %d has %d bytes", number, size)
	}
	return number, int64(size), err
}

// message reads a message into body.
func (l *list) message(size int64) error {
	l.body.Reset()
	n, err := io.CopyN(l.body, l.from, size)
	l.read += n
	return err
}

// ReadByte reads a byte of the head of a field.
func (l *list) ReadByte() (byte, error) {
	l.read++
	return l.from.ReadByte()
}
