// Package rpc knows the messages of gRPC methods: from a .proto, a descriptor set, or the server
// itself (reflection). It encodes requests from JSON, before a run.
package rpc

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Schema has the descriptors of some services.
type Schema struct {
	files *protoregistry.Files
	from  string // its source, for errors
}

// Read parses a serialized FileDescriptorSet from Compile. from names it in errors.
func Read(set []byte, from string) (*Schema, error) {
	var list descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &list); err != nil {
		return nil, fmt.Errorf("%s: not a descriptor set (%s); give a .proto, or what protoc --descriptor_set_out wrote", from, words(err))
	}
	return newSchema(list.File, from)
}

func newSchema(list []*descriptorpb.FileDescriptorProto, from string) (*Schema, error) {
	files, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: list})
	if err != nil {
		return nil, fmt.Errorf("%s: %s", from, words(err))
	}
	return &Schema{files, from}, nil
}

// words formats a protobuf error in one line, without the library's name, and without the spaces
// with which it keeps its texts from being relied on.
func words(err error) string {
	text := strings.NewReplacer("\u00a0", " ", "\n", " ").Replace(err.Error())
	return strings.TrimSpace(strings.TrimPrefix(text, "proto:"))
}

// Services returns the full names of all services, in order.
func (s *Schema) Services() []string {
	var list []string
	s.files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			list = append(list, string(f.Services().Get(i).FullName()))
		}
		return true
	})
	slices.Sort(list)
	return list
}

// find returns the method of a path, /package.Service/Method.
func (s *Schema) find(path string) (protoreflect.MethodDescriptor, error) {
	service, method := split(path)
	found, err := s.files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil && !errors.Is(err, protoregistry.NotFound) {
		return nil, fmt.Errorf("%s: %s", s.from, words(err))
	}
	services, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, noService(s.from, service, s.Services())
	}
	m := services.Methods().ByName(protoreflect.Name(method))
	if m == nil {
		var names []string
		for i := range services.Methods().Len() {
			names = append(names, string(services.Methods().Get(i).Name()))
		}
		return nil, fmt.Errorf("--grpc: %s has no method %s; %s", service, method, choice(method, names))
	}
	return m, nil
}

// split splits a path.
func split(path string) (service, method string) {
	service, method, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return service, method
}

func noService(from, service string, all []string) error {
	return fmt.Errorf("--grpc: %s has no service %s; %s", from, service, choice(service, all))
}

// choiceMost bounds the names that an error lists.
const choiceMost = 8

// choice lists the names there are, the most likely one first.
func choice(name string, all []string) string {
	if len(all) == 0 {
		return "it has none"
	}
	if near := nearest(name, all); near != "" {
		return "did you mean " + near + "?"
	}
	listed := all[:min(len(all), choiceMost)]
	text := "it has " + strings.Join(listed, ", ")
	if more := len(all) - len(listed); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// nearest returns the most likely intended name; "": none is close.
func nearest(name string, all []string) string {
	last := func(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }
	best, least := "", max(len(name)/3, 1)+1
	for _, other := range all {
		d := min(distance(strings.ToLower(name), strings.ToLower(other)), distance(strings.ToLower(last(name)), strings.ToLower(last(other)))+1)
		if strings.EqualFold(name, other) {
			d = 0
		}
		if d < least {
			best, least = other, d
		}
	}
	return best
}

// distance is how many letters must be inserted, deleted or changed to turn one text into the other
// (Levenshtein's). Names have some tens of them.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Call is what a call of a method sends, and what comes back.
type Call struct {
	// Messages of the request, each after the five-byte prefix of the wire format.
	Messages []byte
	// Streams: the response is any number of messages.
	Streams bool
}

// Encode encodes a call of a method, its message from JSON (none: an empty one). A method that takes
// a stream of them takes several JSON values, or an array.
func (s *Schema) Encode(path string, body []byte) (c Call, err error) {
	m, err := s.find(path)
	if err != nil {
		return c, err
	}
	c.Streams = m.IsStreamingServer()
	list := []json.RawMessage{body}
	if m.IsStreamingClient() {
		if list, err = valuesOf(body); err != nil {
			return c, fmt.Errorf("-b: not messages in JSON: %w", err)
		}
	}
	for _, text := range list {
		if c.Messages, err = s.appendMessage(c.Messages, m.Input(), text); err != nil {
			return c, err
		}
	}
	return c, nil
}

// valuesOf returns the JSON values of a text one after the other, or those of its array; an empty
// text has an empty one.
func valuesOf(text []byte) (list []json.RawMessage, err error) {
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return []json.RawMessage{nil}, nil
	}
	if text[0] == '[' {
		return list, json.Unmarshal(text, &list)
	}
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

// appendMessage appends a message, from JSON, after its prefix.
func (s *Schema) appendMessage(out []byte, of protoreflect.MessageDescriptor, text []byte) ([]byte, error) {
	message := dynamicpb.NewMessage(of)
	if len(text) > 0 {
		if err := (protojson.UnmarshalOptions{Resolver: dynamicpb.NewTypes(s.files)}).Unmarshal(text, message); err != nil {
			why := words(err)
			if strings.Contains(why, "unknown field") {
				why += "; " + fieldsOf(of)
			}
			return nil, fmt.Errorf("-b: not a %s in JSON: %s", of.FullName(), why)
		}
	}
	begin := len(out)
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(out, make([]byte, 5)...), message)
	if err != nil {
		return nil, fmt.Errorf("-b: %s", words(err))
	}
	binary.BigEndian.PutUint32(out[begin+1:], uint32(len(out)-begin-5))
	return out, nil
}

// fieldsOf lists the fields of a message.
func fieldsOf(m protoreflect.MessageDescriptor) string {
	var names []string
	for i := range m.Fields().Len() {
		names = append(names, m.Fields().Get(i).JSONName())
	}
	switch more := len(names) - choiceMost; {
	case len(names) == 0:
		return string(m.FullName()) + " has no fields"
	case more > 0:
		return fmt.Sprintf("%s has %s and %d more", m.FullName(), strings.Join(names[:choiceMost], ", "), more)
	}
	return fmt.Sprintf("%s has %s", m.FullName(), strings.Join(names, ", "))
}

// byName orders files, so that the same schema gives the same bytes.
func byName(list []*descriptorpb.FileDescriptorProto) {
	slices.SortFunc(list, func(a, b *descriptorpb.FileDescriptorProto) int { return cmp.Compare(a.GetName(), b.GetName()) })
}
