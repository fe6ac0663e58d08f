package rpc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// setMost bounds a descriptor file: those of a large company's services have a few MB.
const setMost = 64 << 20

// Compile reads a file with services, a .proto or a descriptor set, and returns it as a serialized
// FileDescriptorSet with all its imports. It searches a .proto's imports in its own directory and
// its parents.
func Compile(ctx context.Context, name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("--proto: %w", err)
	}
	if info.Size() > setMost {
		return nil, fmt.Errorf("--proto %s: %d bytes are too many; at most %d", name, info.Size(), setMost)
	}
	if filepath.Ext(name) != ".proto" {
		set, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--proto: %w", err)
		}
		_, err = Read(set, "--proto "+name)
		return set, err
	}
	absolute, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("--proto %s: %w", name, err)
	}
	var paths []string
	for dir := filepath.Dir(absolute); ; dir = filepath.Dir(dir) {
		if paths = append(paths, dir); dir == filepath.Dir(dir) {
			break
		}
	}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: paths})}
	files, err := compiler.Compile(ctx, filepath.Base(absolute))
	if err != nil {
		return nil, wrongProto(name, err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	collect(set, map[string]bool{}, files[0])
	byName(set.File)
	return proto.MarshalOptions{Deterministic: true}.Marshal(set)
}

// wrongProto says where in which file the error is.
func wrongProto(name string, err error) error {
	var at reporter.ErrorWithPos
	if errors.As(err, &at) {
		p := at.GetPosition()
		file := p.Filename
		if file == filepath.Base(name) {
			file = name
		}
		return fmt.Errorf("--proto %s:%d: %s", file, p.Line, words(at.Unwrap()))
	}
	return fmt.Errorf("--proto %s: %s", name, words(err))
}

// collect adds a file and all its imports.
func collect(set *descriptorpb.FileDescriptorSet, have map[string]bool, f protoreflect.FileDescriptor) {
	if have[f.Path()] {
		return
	}
	have[f.Path()] = true
	set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	for i := range f.Imports().Len() {
		collect(set, have, f.Imports().Get(i).FileDescriptor)
	}
}
