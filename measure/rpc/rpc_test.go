package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"ceiling/internal/archive"
	"ceiling/internal/authority"
	"ceiling/internal/leak"
	served "ceiling/server/rpc"
)

func TestMain(m *testing.M) { leak.Main(m) }

// compiled is the schema of a file in testdata.
func compiled(t *testing.T, name string) *Schema {
	t.Helper()
	dir := t.TempDir()
	archive.Extract(t, "testdata/protos.txtar", dir)
	set, err := Compile(t.Context(), filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := Read(set, name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestEncode: the bytes are those that the protocol's own documents give for such messages.
func TestEncode(t *testing.T) {
	s := compiled(t, "shop/v1/cart.proto")
	for _, k := range []struct{ json, message string }{
		{"", ""},
		{"{}", ""},
		{`{"name":"testing"}`, "\x12\x07testing"},                        // protobuf.dev, encoding: 12 07 74 65 73 74 69 6e 67
		{`{"count":150}`, "\x08\x96\x01"},                                // 08 96 01
		{`{"prices":[3,270,86942]}`, "\x32\x06\x03\x8e\x02\x9e\xa7\x05"}, // 32 06 03 8e 02 9e a7 05
		{`{"when":"1970-01-01T00:00:01Z"}`, "\x1a\x02\x08\x01"},          // a well-known type by its own form
		{`{"any":{"@type":"type.googleapis.com/shop.v1.Kind"}}`, "\x22\x22\x0a\x20type.googleapis.com/shop.v1.Kind"},
		{`{"colour":"RED","kindOf":{}}`, "\x28\x01\x3a\x00"},
	} {
		call, err := s.Encode("/shop.v1.Cart/Add", []byte(k.json))
		got := call.Messages
		if want := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(k.message)))) + k.message; err != nil || string(got) != want {
			t.Errorf("%s: %q %v, want %q", k.json, got, err, want)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	s := compiled(t, "shop/v1/cart.proto")
	for _, k := range []struct{ path, json, want string }{
		{"/shop.v1.Cart/Add", `{"nam":"x"}`, `unknown field "nam"; shop.v1.Item has count, name, when, any, colour, prices, kindOf`},
		{"/shop.v1.Cart/Add", `{"count":"x"}`, "invalid value for int32 field count"},
		{"/shop.v1.Cart/Add", `{"name":`, "unexpected EOF"},
		{"/shop.v1.Cart/Add", `[1]`, "unexpected token ["},
		{"/shop.v1.Cart/Ad", ``, "shop.v1.Cart has no method Ad; did you mean Add?"},
		{"/shop.v1.Cart/Delete", ``, "shop.v1.Cart has no method Delete; it has Add, Watch, Upload"},
		{"/shop.v1.cart/Add", ``, "has no service shop.v1.cart; did you mean shop.v1.Cart?"},
		{"/Cart/Add", ``, "has no service Cart; did you mean shop.v1.Cart?"},
		{"/shop.v1.Item/Add", ``, "has no service shop.v1.Item; did you mean shop.v1.Cart?"},
		{"/shop.v1.Cart/Add", `{"count":1} {"count":2}`, "unexpected token {"},
		{"/shop.v1.Cart/Upload", `{"count":1} {"cnt":2}`, `unknown field "cnt"`},
		{"/shop.v1.Cart/Upload", `[{"count":1}`, "-b: not messages in JSON: unexpected end"},
		{"/shop.v1.Cart/Upload", `{"count":1} {`, "-b: not messages in JSON: unexpected EOF"},
	} {
		_, err := s.Encode(k.path, []byte(k.json))
		if err == nil || !strings.Contains(err.Error(), k.want) || strings.ContainsAny(err.Error(), "\n\u00a0") {
			t.Errorf("%s %s: %v, want %q", k.path, k.json, err, k.want)
		}
	}
}

// TestCompile: imports are found beside the file and above it, a descriptor set is as good
// as a .proto, and what is wrong has a file and a line.
func TestCompile(t *testing.T) {
	dir := t.TempDir()
	archive.Extract(t, "testdata/protos.txtar", dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	set, err := Compile(t.Context(), at("shop/v1/cart.proto"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("cart.pb"), set, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := Compile(t.Context(), at("cart.pb")); err != nil || string(again) != string(set) {
		t.Errorf("a descriptor set: %v, the same: %v", err, string(again) == string(set))
	}
	for name, want := range map[string]string{
		"broken.proto": at("broken.proto") + ":3: syntax error", "lost.proto": at("lost.proto") + ":2: ", "type.proto": at("type.proto") + ":3: ",
		"none.proto": "no such file", "cart.txt": "not a descriptor set",
	} {
		if _, err := Compile(t.Context(), at(name)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// listening gives a server's address to a function that serves there until the test ends.
func listening(t *testing.T, serve func(net.Listener) (stop func())) Server {
	t.Helper()
	on, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serve(on))
	var dialer net.Dialer
	return Server{Name: on.Addr().String(), Host: "localhost", Dial: func(ctx context.Context) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", on.Addr().String())
	}}
}

func serveGRPC(t *testing.T, options ...grpc.ServerOption) Server {
	t.Helper()
	s, err := served.New(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	return listening(t, func(on net.Listener) func() {
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(on) }()
		return func() {
			s.Stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// answers is a server that answers reflection as a function says, by status and message.
func answers(t *testing.T, answer func(path string, request []byte) (status string, message []byte)) Server {
	t.Helper()
	return serveHTTP2(t, func(out http.ResponseWriter, in *http.Request) {
		b := make([]byte, in.ContentLength)
		if _, err := in.Body.Read(b); len(b) < 5 || err != nil && err.Error() != "EOF" {
			t.Errorf("request of %d bytes, %v", len(b), err)
		}
		status, message := answer(in.URL.Path, b[5:])
		out.Header().Set("Content-Type", "application/grpc")
		out.Header().Set("Trailer", "Grpc-Status")
		if message != nil {
			_, _ = out.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
		}
		out.Header().Set("Grpc-Status", status)
	})
}

func serveHTTP2(t *testing.T, handler http.HandlerFunc) Server {
	t.Helper()
	s := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	return listening(t, func(on net.Listener) func() {
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(on) }()
		return func() {
			s.Close()
			<-ended
		}
	})
}

// TestReflect: a real server says what its messages are, over TLS and without.
func TestReflect(t *testing.T) {
	authorities, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities.PEM())
	for name, secure := range map[string]bool{"h2c": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			var options []grpc.ServerOption
			if secure {
				options = append(options, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}})))
			}
			server := serveGRPC(t, options...)
			if secure {
				server.TLS = &tls.Config{ServerName: "localhost", RootCAs: roots}
			}
			s, err := Reflect(t.Context(), server, []string{"/ceiling.Echo/Say", "/ceiling.Echo/Simple"})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Encode("/ceiling.Echo/Say", []byte(`{"text":"hi","status":5}`)); err != nil || string(got.Messages) != "\x00\x00\x00\x00\x06\x0a\x02hi\x10\x05" {
				t.Errorf("%q %v", got.Messages, err)
			}
			_, err = Reflect(t.Context(), server, []string{"/ceiling.Eco/Say"})
			if err == nil || !strings.Contains(err.Error(), "has no service ceiling.Eco; did you mean ceiling.Echo?") {
				t.Error(err)
			}
		})
	}
}

// TestReflectPieces: a server may have the older version alone, and may send each file only
// when it is asked for.
func TestReflectPieces(t *testing.T) {
	dir := t.TempDir()
	archive.Extract(t, "testdata/protos.txtar", dir)
	set, err := Compile(t.Context(), filepath.Join(dir, "shop/v1/cart.proto"))
	if err != nil {
		t.Fatal(err)
	}
	var list descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &list); err != nil {
		t.Fatal(err)
	}
	files := map[string]*descriptorpb.FileDescriptorProto{}
	for _, f := range list.File {
		files[f.GetName()] = f
	}
	var asked []string
	server := answers(t, func(path string, request []byte) (string, []byte) {
		if !strings.Contains(path, "v1alpha") {
			return "12", nil
		}
		number, _, n := protowire.ConsumeTag(request)
		name, _ := protowire.ConsumeString(request[n:])
		asked = append(asked, name)
		if number == fileContaining {
			name = "cart.proto"
		}
		b, err := proto.Marshal(files[name])
		if err != nil {
			t.Error(err)
		}
		return "0", response(4, 1, b)
	})
	s, err := Reflect(t.Context(), server, []string{"/shop.v1.Cart/Add"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Encode("/shop.v1.Cart/Add", []byte(`{"when":"1970-01-01T00:00:01Z"}`)); err != nil {
		t.Error(err)
	}
	want := []string{"shop.v1.Cart", "google/protobuf/any.proto", "google/protobuf/timestamp.proto", "shop/v1/kind.proto"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
}

// response is a ServerReflectionResponse with one field in one of its answers.
func response(answer, field protowire.Number, b []byte) []byte {
	inner := protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), b)
	return protowire.AppendBytes(protowire.AppendTag(nil, answer, protowire.BytesType), inner)
}

// TestReflectRefuses: what is no server of gRPC, or does not say what it serves, is told so
// in one line.
func TestReflectRefuses(t *testing.T) {
	file := func(f *descriptorpb.FileDescriptorProto) []byte {
		b, err := proto.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return response(4, 1, b)
	}
	with := func(status string, message []byte) Server {
		return answers(t, func(string, []byte) (string, []byte) { return status, message })
	}
	http1 := listening(t, func(on net.Listener) func() {
		s := &http.Server{Handler: http.NotFoundHandler()}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(on) }()
		return func() {
			s.Close()
			<-ended
		}
	})
	hangsUp := listening(t, func(on net.Listener) func() {
		ended := make(chan error, 1)
		go func() {
			for {
				c, err := on.Accept()
				if err != nil {
					ended <- err
					return
				}
				c.(*net.TCPConn).SetLinger(0) // a reset, as of a close with bytes unread
				c.Close()
			}
		}()
		return func() {
			on.Close()
			<-ended
		}
	})
	for name, k := range map[string]struct {
		server Server
		want   string
	}{
		"hangs up":      {hangsUp, "does not speak HTTP/2, which gRPC needs"},
		"HTTP/1.1":      {http1, "does not speak HTTP/2, which gRPC needs"},
		"not gRPC":      {serveHTTP2(t, http.NotFound), "does not speak gRPC: it answers with HTTP status 404"},
		"no reflection": {with("12", nil), "it does not offer server reflection; give the service's file with --proto FILE"},
		"an error":      {with("16", nil), `reflection ends with grpc-status "16"`},
		"no message":    {with("0", nil), "reflection answers with no message"},
		"damaged":       {with("0", []byte{0xff}), "a message that is damaged"},
		"no file":       {with("0", response(4, 1, []byte{0xff})), "reflection sent an invalid file"},
		"another file":  {with("0", file(&descriptorpb.FileDescriptorProto{Name: new("a"), Dependency: []string{"b"}})), `does not send the file "b"`},
		"nothing":       {with("0", []byte{}), "has no service a.B; it has none"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Reflect(t.Context(), k.server, []string{"/a.B/C"})
			if err == nil {
				_, err = s.Encode("/a.B/C", nil)
			}
			if err == nil || !strings.Contains(err.Error(), k.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, k.want)
			}
		})
	}
}

// FuzzReadAnswer: whatever a server answers is read or refused, and what was read is what
// protobuf's own rules find there.
func FuzzReadAnswer(f *testing.F) {
	f.Add(response(4, 1, []byte("file")))
	f.Add(response(6, 1, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "a.B")))
	f.Add([]byte("\x3a\x04\x08\x05\x12\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := readAnswer(b)
		if err != nil {
			return
		}
		total := len(a.message)
		for _, file := range a.files {
			total += len(file)
		}
		for _, name := range a.services {
			total += len(name)
		}
		if total > len(b) && a.message == "" {
			t.Errorf("%d bytes were read of %d", total, len(b))
		}
	})
}

// FuzzEncode: JSON is a message or is refused in one line, and the prefix says how long.
func FuzzEncode(f *testing.F) {
	dir := f.TempDir()
	archive.Extract(f, "testdata/protos.txtar", dir)
	set, err := Compile(f.Context(), filepath.Join(dir, "shop/v1/cart.proto"))
	if err != nil {
		f.Fatal(err)
	}
	s, err := Read(set, "cart.proto")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"name":"x"}`)
	f.Add(`{"any":{"@type":"type.googleapis.com/shop.v1.Kind"}}`)
	f.Fuzz(func(t *testing.T, json string) {
		call, err := s.Encode("/shop.v1.Cart/Add", []byte(json))
		b := call.Messages
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("two lines: %q", err)
			}
			return
		}
		if b[0] != 0 || binary.BigEndian.Uint32(b[1:]) != uint32(len(b)-5) {
			t.Errorf("prefix %x of %d bytes", b[:5], len(b))
		}
	})
}
