package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Server is a server to ask for its services.
type Server struct {
	// Name for errors.
	Name string
	// Host as in requests (":authority").
	Host string
	// Dial opens a connection.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS configuration; nil: HTTP/2 with prior knowledge.
	TLS *tls.Config
}

const (
	// answerMost bounds a reflection response, filesMost how many files are requested by name: a
	// server must not fill memory with them.
	answerMost = setMost
	filesMost  = 1000
)

// ErrNoReflection means that a server does not list its services.
var ErrNoReflection = errors.New("it does not offer server reflection")

// Reflect asks a server for the services of some paths, by reflection v1 or v1alpha.
func Reflect(ctx context.Context, server Server, paths []string) (*Schema, error) {
	r := newReflector(ctx, server)
	defer r.transport.CloseIdleConnections()
	for _, version := range []string{"v1", "v1alpha"} {
		r.path = "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo"
		schema, err := r.services(paths)
		if !errors.Is(err, ErrNoReflection) {
			return schema, err
		}
	}
	return nil, fmt.Errorf("--grpc: %s: %w; give the service's file with --proto FILE", server.Name, ErrNoReflection)
}

// reflector queries one server.
type reflector struct {
	ctx       context.Context
	server    Server
	transport *http.Transport
	path      string
	have      map[string]bool
	files     []*descriptorpb.FileDescriptorProto
}

func newReflector(ctx context.Context, server Server) *reflector {
	t := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return server.Dial(ctx) },
		TLSClientConfig: server.TLS, Protocols: new(http.Protocols), DisableCompression: true,
	}
	t.Protocols.SetHTTP2(server.TLS != nil)
	t.Protocols.SetUnencryptedHTTP2(server.TLS == nil)
	return &reflector{ctx: ctx, server: server, transport: t, have: map[string]bool{}}
}

// services returns the services of some paths.
func (r *reflector) services(paths []string) (*Schema, error) {
	var asked []string
	for _, path := range paths {
		service, _ := split(path)
		if slices.Contains(asked, service) {
			continue
		}
		asked = append(asked, service)
		answer, err := r.ask(fileContaining, service)
		if err != nil {
			return nil, err
		}
		if answer.code == notFound {
			return nil, r.noService(service)
		}
		if err := r.add(answer); err != nil {
			return nil, err
		}
	}
	return newSchema(r.files, r.server.Name)
}

// noService returns an error that lists the existing services.
func (r *reflector) noService(service string) error {
	answer, err := r.ask(listServices, "*")
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(answer.services, func(name string) bool { return strings.HasPrefix(name, "grpc.reflection.") })
	slices.Sort(names)
	return noService(r.server.Name, service, names)
}

// add stores the files of a response and requests their imports, which some servers include and
// others do not.
func (r *reflector) add(answer *answer) error {
	if err := r.keep(answer); err != nil {
		return err
	}
	for i := 0; i < len(r.files); i++ {
		for _, name := range r.files[i].GetDependency() {
			if r.have[name] {
				continue
			}
			if len(r.files) >= filesMost {
				return r.wrong(fmt.Sprintf("its services are over %d files", filesMost))
			}
			more, err := r.ask(fileByName, name)
			if err != nil {
				return err
			}
			if err := r.keep(more); err != nil {
				return err
			}
			if !r.have[name] {
				return r.wrong(fmt.Sprintf("reflection does not send the file %q, which another imports", cut(name)))
			}
		}
	}
	return nil
}

// keep stores the files of a response, each once.
func (r *reflector) keep(answer *answer) error {
	if answer.code != 0 {
		return r.wrong(fmt.Sprintf("reflection ends with the code %d: %q", answer.code, cut(answer.message)))
	}
	for _, b := range answer.files {
		f := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(b, f); err != nil {
			return r.wrong("reflection sent an invalid file")
		}
		if !r.have[f.GetName()] {
			r.have[f.GetName()] = true
			r.files = append(r.files, f)
		}
	}
	return nil
}

func (r *reflector) wrong(what string) error {
	return fmt.Errorf("--grpc: %s: %s; give the service's file with --proto FILE", r.server.Name, what)
}

// cut truncates a server's text to fit a line.
func cut(text string) string { return text[:min(len(text), 200)] }

// gRPC codes used here.
const (
	notFound      = 5
	unimplemented = 12
)

// ask sends one reflection request and returns its response, in a separate call each time.
func (r *reflector) ask(kind protowire.Number, value string) (*answer, error) {
	scheme := "http"
	if r.server.TLS != nil {
		scheme = "https"
	}
	message := protowire.AppendString(protowire.AppendTag(nil, kind, protowire.BytesType), value)
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	request, err := http.NewRequestWithContext(r.ctx, http.MethodPost, scheme+"://"+r.server.Host+r.path, bytes.NewReader(append(body, message...)))
	if err != nil {
		return nil, fmt.Errorf("--grpc: %w", err)
	}
	request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	response, err := r.transport.RoundTrip(request)
	if err != nil {
		return nil, r.unreached(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(io.LimitReader(response.Body, answerMost+1))
	if err != nil {
		return nil, r.unreached(err)
	}
	status := response.Trailer.Get("Grpc-Status")
	if status == "" {
		status = response.Header.Get("Grpc-Status") // a trailers-only response
	}
	switch {
	case status == strconv.Itoa(unimplemented):
		return nil, ErrNoReflection
	case status == "" && response.StatusCode != http.StatusOK, status == "" && !strings.HasPrefix(response.Header.Get("Content-Type"), "application/grpc"):
		return nil, fmt.Errorf("--grpc: %s does not speak gRPC: it answers with HTTP status %d and content type %q; check the port",
			r.server.Name, response.StatusCode, cut(response.Header.Get("Content-Type")))
	case status != "0":
		return nil, r.wrong(fmt.Sprintf("reflection ends with grpc-status %q", cut(status)))
	case len(got) < 5 || len(got) > answerMost || got[0] != 0 || uint64(binary.BigEndian.Uint32(got[1:])) != uint64(len(got)-5):
		return nil, r.wrong("reflection answers with no message")
	}
	a, err := readAnswer(got[5:])
	if err != nil {
		return nil, r.wrong("reflection answers with a message that is damaged")
	}
	return a, nil
}

// unreached says why there was no response.
func (r *reflector) unreached(err error) error {
	text := err.Error()
	otherProtocol := strings.Contains(text, "http2:") || strings.Contains(text, "malformed HTTP") || strings.Contains(text, "HTTP/1.")
	// A server that refuses HTTP/2's preface may close the connection before we have
	// written all of it: EPIPE and ECONNRESET are then what comes first.
	for _, closed := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.EPIPE, syscall.ECONNRESET} {
		otherProtocol = otherProtocol || errors.Is(err, closed)
	}
	if otherProtocol {
		return fmt.Errorf("--grpc: %s does not speak HTTP/2, which gRPC needs (%s); check the port, or whether it is https://", r.server.Name, words(err))
	}
	return &unreachedError{fmt.Sprintf("--grpc: %s does not list its services: %s; start the server, or check its address", r.server.Name, words(err)), err}
}

// ErrUnreached means that there was no connection to the server.
var ErrUnreached = errors.New("no connection to the server")

type unreachedError struct {
	text string
	err  error
}

func (e *unreachedError) Error() string   { return e.text }
func (e *unreachedError) Unwrap() []error { return []error{ErrUnreached, e.err} }

// Fields of ServerReflectionRequest (grpc/reflection/v1/reflection.proto).
const (
	fileByName     protowire.Number = 3
	fileContaining protowire.Number = 4
	listServices   protowire.Number = 7
)

// answer is a ServerReflectionResponse.
type answer struct {
	files    [][]byte // FileDescriptorProto
	services []string
	code     int // of an error; 0: none
	message  string
}

var errDamaged = errors.New("damaged message")

// readAnswer decodes a response.
func readAnswer(b []byte) (*answer, error) {
	const fileResponse, listResponse, errorResponse = 4, 6, 7
	a := &answer{}
	err := eachField(b, func(n protowire.Number, _ uint64, b []byte) error {
		switch n {
		case fileResponse:
			return eachField(b, func(n protowire.Number, _ uint64, b []byte) error {
				if n == 1 {
					a.files = append(a.files, b)
				}
				return nil
			})
		case listResponse:
			return eachField(b, func(n protowire.Number, _ uint64, b []byte) error {
				if n != 1 {
					return nil
				}
				return eachField(b, func(n protowire.Number, _ uint64, b []byte) error {
					if n == 1 {
						a.services = append(a.services, string(b))
					}
					return nil
				})
			})
		case errorResponse:
			return eachField(b, func(n protowire.Number, v uint64, b []byte) error {
				switch n {
				case 1:
					a.code = int(v & 0xffff)
				case 2:
					a.message = string(b)
				}
				return nil
			})
		}
		return nil
	})
	return a, err
}

// eachField calls tell for each field of a message: a number, or bytes.
func eachField(b []byte, tell func(n protowire.Number, v uint64, b []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errDamaged
		}
		b = b[n:]
		var v uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return errDamaged
		}
		b = b[n:]
		if err := tell(number, v, text); err != nil {
			return err
		}
	}
	return nil
}
