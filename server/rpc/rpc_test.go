package rpc

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"ceiling/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestAnswers: another client gets the message back, or the status that it asked for. A
// StringValue has its text as the field 1 too.
func TestAnswers(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	at, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, Config{Addr: "127.0.0.1:0", Ready: func(addr string) { at <- addr }}) }()
	conn, err := grpc.NewClient(<-at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]string{"Say": "hello", "Simple": "hi"} {
		out := &wrapperspb.StringValue{}
		if err := conn.Invoke(t.Context(), "/ceiling.Echo/"+method, wrapperspb.String("hello"), out); err != nil || out.Value != want {
			t.Errorf("%s: %q %v", method, out.Value, err)
		}
	}
	refused := wrapperspb.String("no")
	refused.ProtoReflect().SetUnknown([]byte{2 << 3, byte(codes.Unavailable)})
	err = conn.Invoke(t.Context(), "/ceiling.Echo/Say", refused, &wrapperspb.StringValue{})
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "no" {
		t.Errorf("asked for UNAVAILABLE: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRefusesAnAddress(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := Serve(t.Context(), Config{Addr: ln.Addr().String()}); err == nil {
		t.Error("two servers on one address")
	}
}

// FuzzCodec: bytes that are a message are written again as they would be by protobuf's own.
func FuzzCodec(f *testing.F) {
	f.Add([]byte("\x0a\x02hi"))
	f.Add([]byte("\x10\x0e\x1a\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := codec{encoding.GetCodecV2("proto")}
		m := &message{}
		if c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m) != nil {
			return
		}
		out, err := c.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again := &message{}
		if err := c.Unmarshal(out, again); err != nil || *again != *m {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
		var other wrapperspb.StringValue
		if proto.Unmarshal(b, &other) == nil && other.Value != m.text {
			t.Errorf("%q is %q", m.text, other.Value)
		}
	})
}
