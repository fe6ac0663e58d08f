package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// GRPC makes the requests calls: a target's path is /package.Service/Method, its body
// the request's message in JSON, and the status is grpc-status.
type GRPC struct {
	// Proto is a file that defines the service: a .proto, or a descriptor set. "": use server
	// reflection.
	Proto string `json:"proto,omitempty" yaml:"proto,omitempty" jsonschema:"file that has the service, a .proto or a descriptor set, relative to this one (default: the server's reflection)"`
	// Descriptors is the content of Proto, as a serialized FileDescriptorSet.
	Descriptors []byte `json:"descriptors,omitempty" yaml:"-"`
}

// GRPCOK is the status of a successful call.
const GRPCOK = "OK"

// GRPCStatus returns the name of a gRPC status code; its digits if it has none.
func GRPCStatus(code int) string {
	names := [...]string{GRPCOK, "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
		"UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}
	if code < 0 || code >= len(names) {
		return strconv.Itoa(code)
	}
	return names[code]
}

// StatusName returns a status code's name in this run.
func (s *Spec) StatusName(code int) string {
	if s.GRPC != nil {
		return GRPCStatus(code)
	}
	return strconv.Itoa(code)
}

// Expects reports whether a status code is expected.
func (s *Spec) Expects(code int) bool {
	if s.GRPC != nil {
		return code == 0
	}
	return s.Expect.Has(code)
}

// ParseMethod parses a method as typed, package.Service/Method or with a dot before the method,
// and returns the path of its calls.
func ParseMethod(text string) (path string, err error) {
	name := strings.TrimPrefix(text, "/")
	service, method, found := strings.Cut(name, "/")
	if dot := strings.LastIndexByte(name, '.'); !found && dot > 0 {
		service, method = name[:dot], name[dot+1:]
	}
	if path = "/" + service + "/" + method; !isMethodPath(path) {
		return "", fmt.Errorf("--grpc: not a gRPC method: %s; write package.Service/Method", quoteShort(text))
	}
	return path, nil
}

// isMethodPath recognises /package.Service/Method.
func isMethodPath(path string) bool {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	for part := range strings.SplitSeq(service+"."+method, ".") {
		if part == "" || isDigit(part[0]) {
			return false
		}
		for _, c := range []byte(part) {
			if !isLetter(c) && !isDigit(c) && c != '_' {
				return false
			}
		}
	}
	return strings.HasPrefix(path, "/")
}

// Call makes a target a call of the method at a path, unless its URL names one itself.
func (t *Target) Call(path string) error {
	base, own, err := SplitURL(t.URL)
	if err != nil {
		return err
	}
	if own == "/" {
		own = path
	}
	if !isMethodPath(own) {
		return fmt.Errorf("--grpc: the URL has a path, %s; leave it out", quoteShort(own))
	}
	if t.Method != "" && t.Method != "GET" && t.Method != "POST" {
		return fmt.Errorf("--grpc: a call is a POST, not %s; leave the method out", quoteShort(t.Method))
	}
	t.URL, t.Method = base+own, "POST"
	return nil
}

// checkGRPC rejects settings that do not apply to calls.
func (s *Spec) checkGRPC() error {
	if s.GRPC == nil {
		return nil
	}
	switch {
	case s.Kind != Requests:
		return fmt.Errorf("--grpc: it makes calls, not %s; leave one of them out", s.Kind.Many())
	case s.HTTP != HTTP2:
		return errors.New("--grpc: calls go over HTTP/2; leave --http out")
	case !s.Expect.IsZero():
		return errors.New("--expect: it takes HTTP statuses, and of gRPC's OK alone is a success; leave it out")
	}
	for i := range s.Targets {
		t := &s.Targets[i]
		_, path, err := SplitURL(t.URL)
		if err != nil {
			return err
		}
		if !isMethodPath(path) || t.Method != "POST" {
			return fmt.Errorf("%s%s %s does not call a gRPC method; give POST and the path /package.Service/Method", targetName(s.Targets, i), t.Method, path)
		}
		for _, f := range t.Header {
			switch strings.ToLower(f.Name) {
			case "content-type", "te", "grpc-timeout", "content-length":
				return fmt.Errorf("header %s: gRPC says what it is; leave it out", f.Name)
			}
		}
	}
	return nil
}
