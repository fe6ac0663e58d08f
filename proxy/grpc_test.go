package proxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"ceiling/internal/needs"
)

// rawCodec has messages of bytes.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "raw" }
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// grpcServer is a real server of gRPC, whose methods are handle's.
func grpcServer(t *testing.T, handle func(method string, s grpc.ServerStream) error, options ...grpc.ServerOption) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		return handle(method, stream)
	}
	s := grpc.NewServer(append(options, grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(all))...)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	t.Cleanup(func() { s.Stop(); <-done })
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// grpcClient is a real client of the proxy.
func (r *running) grpcClient(t *testing.T) *grpc.ClientConn {
	t.Helper()
	creds := credentials.NewTLS(&tls.Config{ServerName: "a.example", InsecureSkipVerify: true, MaxVersion: r.tls})
	c, err := grpc.NewClient("passthrough:///"+r.addr, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

var bidi = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true} // read-only

// echoes is what the tests' server does, by method.
func echoes(next <-chan bool, ended chan<- error) func(string, grpc.ServerStream) error {
	return func(method string, s grpc.ServerStream) error {
		var in []byte
		switch method {
		case "/t/Unary":
			if err := s.RecvMsg(&in); err != nil {
				return err
			}
			md, _ := metadata.FromIncomingContext(s.Context())
			s.SetTrailer(metadata.Pairs("x-trailer", "t", "x-bin", string([]byte{0, 1, 2})))
			if err := s.SetHeader(metadata.Pairs("x-header", fmt.Sprint(md["x-asked"]))); err != nil {
				return err
			}
			return s.SendMsg(&in)
		case "/t/Error":
			s.SetTrailer(metadata.Pairs("x-trailer", "t"))
			return status.Error(codes.NotFound, "nothing there: 100 % ü")
		case "/t/Half":
			_ = s.RecvMsg(&in)
			_ = s.SendMsg(&in)
			return status.Error(codes.DataLoss, "half of it")
		case "/t/Server":
			_ = s.RecvMsg(&in)
			for i := range 5 {
				<-next
				out := fmt.Appendf(nil, "%d %s", i, in)
				if err := s.SendMsg(&out); err != nil {
					return err
				}
			}
			return nil
		case "/t/Client":
			n := 0
			for {
				if err := s.RecvMsg(&in); err == io.EOF {
					out := fmt.Append(nil, n)
					return s.SendMsg(&out)
				} else if err != nil {
					return err
				}
				n += len(in)
			}
		case "/t/Both":
			for {
				if err := s.RecvMsg(&in); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if err := s.SendMsg(&in); err != nil {
					return err
				}
			}
		case "/t/Wait":
			_ = s.RecvMsg(&in)
			_ = s.SendMsg(&in)
			<-s.Context().Done()
			ended <- s.Context().Err()
			return s.Context().Err()
		}
		return status.Error(codes.Unimplemented, method)
	}
}

// TestGRPC: a real client reaches a real server through the proxy, with all kinds of calls; no
// message waits for another.
func TestGRPC(t *testing.T) {
	needs.Time(t)
	versions(t, func(t *testing.T, engine string, version uint16) {
		for _, far := range []string{"plain", "TLS"} {
			t.Run(far, func(t *testing.T) {
				next, ended := make(chan bool), make(chan error, 4)
				handle := echoes(next, ended)
				var uri string
				if far == "TLS" {
					files := certify(t, t.TempDir(), "localhost")
					pair, err := tls.LoadX509KeyPair(files.PEM, files.Key)
					if err != nil {
						t.Fatal(err)
					}
					creds := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}})
					uri = "https://localhost:" + grpcServer(t, handle, grpc.Creds(creds)) + "\"\nhttp = \"2\"\nca = \"" + files.PEM
				} else {
					uri = "http://127.0.0.1:" + grpcServer(t, handle) + "\"\nhttp = \"2"
				}
				r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(uri, ""))
				r.tls = version
				c := r.grpcClient(t)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				unary(ctx, t, c)
				streaming(ctx, t, c, next)
				ends(ctx, t, c, ended)
				until(t, "no stream is left", func() bool { return r.counted(t).Streams == 0 })
			})
		}
	})
}

// TestTrailersOfHTTP2: trailers of a client with HTTP/2 reach a destination with HTTP/2, and
// the other way round, behind a body of known length too.
func TestTrailersOfHTTP2(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		if q.URL.Path == "/length" {
			w.Header().Set("Content-Length", "4")
		}
		w.Header().Set("X-Seen", fmt.Sprint(q.Trailer))
		_, _ = io.WriteString(w, "body")
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"Set-Cookie", "1")
	})}
	s.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	t.Cleanup(func() { s.Close(); <-done })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location("http://"+ln.Addr().String()+"\"\nhttp = \"2", ""))
	client := r.client(true)
	defer client.CloseIdleConnections()
	for _, path := range []string{"/", "/length"} {
		q, err := http.NewRequest("POST", "https://a.example"+path, io.MultiReader(bytes.NewReader(make([]byte, 100_000))))
		if err != nil {
			t.Fatal(err)
		}
		q.Trailer = http.Header{"X-In": {"2"}}
		res, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != "body" || fmt.Sprint(res.Trailer) != "map[X-Sum:[1]]" || res.Header.Get("X-Seen") != "map[X-In:[2]]" {
			t.Errorf("%s: %q %v, trailers %v, the destination saw %s", path, body, err, res.Trailer, res.Header.Get("X-Seen"))
		}
	}
}

func unary(ctx context.Context, t *testing.T, c *grpc.ClientConn) {
	t.Helper()
	for _, size := range []int{0, 10, 70_000, 1 << 20} {
		in, out := bytes.Repeat([]byte("x"), size), []byte(nil)
		var header, trailer metadata.MD
		err := c.Invoke(metadata.AppendToOutgoingContext(ctx, "x-asked", "y"), "/t/Unary", &in, &out, grpc.Header(&header), grpc.Trailer(&trailer))
		if err != nil || !bytes.Equal(in, out) {
			t.Fatalf("%d bytes: %v, %d came back", size, err, len(out))
		}
		if fmt.Sprint(header["x-header"], trailer["x-trailer"], trailer["x-bin"]) != "[[y]] [t] [\x00\x01\x02]" {
			t.Errorf("header %v, trailer %v", header, trailer)
		}
	}
	var in, out []byte
	var trailer metadata.MD
	err := c.Invoke(ctx, "/t/Error", &in, &out, grpc.Trailer(&trailer))
	if s := status.Convert(err); s.Code() != codes.NotFound || s.Message() != "nothing there: 100 % ü" || fmt.Sprint(trailer["x-trailer"]) != "[t]" {
		t.Errorf("%v %v", err, trailer)
	}
	if err := c.Invoke(ctx, "/t/Half", &in, &out); status.Code(err) != codes.DataLoss {
		t.Error(err)
	}
	if err := c.Invoke(ctx, "/t/None", &in, &out); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}

func streaming(ctx context.Context, t *testing.T, c *grpc.ClientConn, next chan<- bool) {
	t.Helper()
	open := func(method string) grpc.ClientStream {
		s, err := c.NewStream(ctx, bidi, method)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	send := func(s grpc.ClientStream, b []byte) {
		if err := s.SendMsg(&b); err != nil {
			t.Fatal(err)
		}
	}
	var out []byte
	s := open("/t/Server")
	send(s, []byte("hi"))
	_ = s.CloseSend()
	for i := range 5 {
		next <- true // only now the message is sent
		if err := s.RecvMsg(&out); err != nil || string(out) != fmt.Sprintf("%d hi", i) {
			t.Fatalf("%q %v", out, err)
		}
	}
	if err := s.RecvMsg(&out); err != io.EOF {
		t.Error(err)
	}
	s = open("/t/Client")
	for range 30 {
		send(s, make([]byte, 100_000))
	}
	_ = s.CloseSend()
	if err := s.RecvMsg(&out); err != nil || string(out) != "3000000" {
		t.Errorf("%q %v", out, err)
	}
	s = open("/t/Both")
	for i := range 50 { // each is answered before the next is sent
		b := bytes.Repeat([]byte{byte(i)}, []int{0, 1, 1000, 1 << 20}[i%4])
		send(s, b)
		if err := s.RecvMsg(&out); err != nil || !bytes.Equal(out, b) {
			t.Fatalf("message %d: %d bytes of %d, %v", i, len(out), len(b), err)
		}
	}
	_ = s.CloseSend()
	if err := s.RecvMsg(&out); err != io.EOF {
		t.Error(err)
	}
}

// ends: the server learns that a client has cancelled its call, and of its deadline.
func ends(ctx context.Context, t *testing.T, c *grpc.ClientConn, ended <-chan error) {
	t.Helper()
	for name, begin := range map[string]func() (context.Context, context.CancelFunc){
		"cancel":   func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
		"deadline": func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 300*time.Millisecond) },
	} {
		call, cancel := begin()
		s, err := c.NewStream(call, bidi, "/t/Wait")
		if err != nil {
			t.Fatal(name, err)
		}
		in := []byte("x")
		if err := errors.Join(s.SendMsg(&in), s.RecvMsg(&in)); err != nil {
			t.Fatal(name, err)
		}
		want := codes.DeadlineExceeded
		if name == "cancel" {
			want = codes.Canceled
			cancel()
		}
		if err := s.RecvMsg(&in); status.Code(err) != want {
			t.Error(name, err)
		}
		select {
		case <-ended:
		case <-ctx.Done():
			t.Error(name, "the server does not learn of it")
		}
		cancel()
	}
}
