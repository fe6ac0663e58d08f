package main

import (
	"context"
	"errors"
	"path/filepath"

	"ceiling/experiment/spec"
	"ceiling/measure/rpc"
)

// protocolFlags choose the HTTP version and the gRPC method.
type protocolFlags struct {
	http          string
	method, proto string
}

// calls turns targets into calls of the method, and returns what is known about its messages; nil
// without a method.
func (g *protocolFlags) calls(ctx context.Context, targets []spec.Target) (*spec.GRPC, error) {
	switch {
	case g.method == "" && g.proto != "":
		return nil, errors.New("--proto: it has the messages of a method; give that with --grpc package.Service/Method")
	case g.method == "":
		return nil, nil
	}
	path, err := spec.ParseMethod(g.method)
	if err != nil {
		return nil, err
	}
	for i := range targets {
		if err := targets[i].Call(path); err != nil {
			return nil, err
		}
	}
	own := &spec.GRPC{Proto: g.proto}
	return own, compiled(ctx, own, "")
}

// compiled reads the file that defines the messages, if one is named, relative to a directory.
func compiled(ctx context.Context, g *spec.GRPC, dir string) (err error) {
	if g == nil || g.Proto == "" {
		return nil
	}
	name := g.Proto
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	g.Descriptors, err = rpc.Compile(ctx, name)
	return err
}
