// Package rpc is a gRPC server to measure: google.golang.org/grpc with one small service and
// server reflection.
package rpc

import (
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of reflection's messages
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protodesc"
)

// Name is the kind of server in ceiling serve.
const Name = "grpc"

// About describes it in one line.
const About = "google.golang.org/grpc: ceiling.Echo/Say, /Simple and streams, with reflection; h2c or --tls"

//go:embed echo.proto
var echoProto string

// New creates the server; the options are its interceptors and TLS.
func New(ctx context.Context, options ...grpc.ServerOption) (*grpc.Server, error) {
	files, err := (&protocompile.Compiler{Resolver: &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"echo.proto": echoProto}),
	}}).Compile(ctx, "echo.proto")
	if err != nil {
		return nil, fmt.Errorf("echo.proto: %w", err)
	}
	resolver := files.AsResolver().(protodesc.Resolver)
	s := grpc.NewServer(append([]grpc.ServerOption{grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")})}, options...)...)
	s.RegisterService(service(), nil)
	about := reflection.ServerOptions{Services: s, DescriptorResolver: resolver}
	reflectionv1.RegisterServerReflectionServer(s, reflection.NewServerV1(about))
	reflectionalpha.RegisterServerReflectionServer(s, reflection.NewServer(about))
	return s, nil
}

// Config of a server.
type Config struct {
	Addr  string
	TLS   *tls.Config       // nil: h2c
	Ready func(addr string) // called with the actual address
}

// Serve serves until the context ends.
func Serve(ctx context.Context, c Config) error {
	var options []grpc.ServerOption
	if c.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c.TLS)))
	}
	s, err := New(ctx, options...)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("serve %s: %w", Name, err)
	}
	defer context.AfterFunc(ctx, s.Stop)()
	c.Ready(ln.Addr().String())
	if err := s.Serve(ln); err != nil && !errors.Is(err, grpc.ErrServerStopped) && ctx.Err() == nil {
		return fmt.Errorf("serve %s: %w", Name, err)
	}
	return nil
}

// message represents both messages of the service, one of which has no fields.
type message struct {
	text   string
	status codes.Code
	times  int32
}

// service is what generated code would define.
func service() *grpc.ServiceDesc {
	method := func(name string, answer func(*message) (*message, error)) grpc.MethodDesc {
		handler := func(server any, ctx context.Context, decode func(any) error, between grpc.UnaryServerInterceptor) (any, error) {
			in := &message{}
			if err := decode(in); err != nil {
				return nil, err
			}
			if between == nil {
				return answer(in)
			}
			about := &grpc.UnaryServerInfo{Server: server, FullMethod: "/ceiling.Echo/" + name}
			return between(ctx, in, about, func(_ context.Context, in any) (any, error) { return answer(in.(*message)) })
		}
		return grpc.MethodDesc{MethodName: name, Handler: handler}
	}
	return &grpc.ServiceDesc{
		ServiceName: "ceiling.Echo", HandlerType: (*any)(nil), Metadata: "echo.proto",
		Methods: []grpc.MethodDesc{
			method("Say", func(in *message) (*message, error) {
				if err := answered(in); err != nil {
					return nil, err
				}
				return in, nil
			}),
			method("Simple", func(*message) (*message, error) { return &message{text: "hi"}, nil }),
		},
		Streams: []grpc.StreamDesc{
			{StreamName: "Repeat", Handler: repeat, ServerStreams: true},
			{StreamName: "Collect", Handler: collect, ClientStreams: true},
			{StreamName: "Chat", Handler: chat, ServerStreams: true, ClientStreams: true},
		},
	}
}

func repeat(_ any, s grpc.ServerStream) error {
	m := &message{}
	if err := s.RecvMsg(m); err != nil {
		return err
	}
	for range m.times {
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
	return answered(m)
}

func collect(_ any, s grpc.ServerStream) error {
	last := &message{}
	for {
		m := &message{}
		switch err := s.RecvMsg(m); {
		case errors.Is(err, io.EOF):
			if err := answered(last); err != nil {
				return err
			}
			return s.SendMsg(last)
		case err != nil:
			return err
		}
		last = m
	}
}

func chat(_ any, s grpc.ServerStream) error {
	for {
		m := &message{}
		switch err := s.RecvMsg(m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := answered(m); err != nil {
			return err
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

// answered is the status that a message asks for.
func answered(m *message) error {
	if m.status == codes.OK {
		return nil
	}
	return status.Error(m.status, m.text)
}

// codec encodes the service's messages, as generated code would, and leaves others to protobuf's
// codec.
type codec struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, own := v.(*message)
	if !own {
		return c.CodecV2.Marshal(v)
	}
	var b []byte
	if m.text != "" {
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), m.text)
	}
	if m.status != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(m.status))
	}
	if m.times != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(m.times))
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

var errMessage = errors.New("not a message of this service")

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, own := v.(*message)
	if !own {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.Materialize()
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMessage
		}
		b = b[n:]
		switch {
		case number == 1 && kind == protowire.BytesType:
			text, size := protowire.ConsumeString(b)
			m.text, n = text, size
		case number == 2 && kind == protowire.VarintType:
			code, size := protowire.ConsumeVarint(b)
			m.status, n = codes.Code(code), size
		case number == 3 && kind == protowire.VarintType:
			times, size := protowire.ConsumeVarint(b)
			m.times, n = int32(times), size
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return errMessage
		}
		b = b[n:]
	}
	return nil
}
