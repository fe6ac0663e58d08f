package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/tlsconn"
	"ceiling/measure/load"
	"ceiling/measure/rpc"
)

// calls builds the requests of gRPC calls: the messages, encoded from the JSON in the targets'
// bodies, after the fields of each call. If no file describes the messages, the server does.
func calls(ctx context.Context, s *spec.Spec, c *tlsconn.Config, to target) ([]load.Request, error) {
	var paths []string
	host := ""
	for i := range s.Targets {
		_, path, at, err := spec.ParseTarget(s.Targets[i].URL)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		paths, host = append(paths, path), at
	}
	schema, err := schemaOf(ctx, s, c, to, host, paths)
	var here *hostError
	switch {
	case errors.As(err, &here):
		return nil, here
	case errors.Is(err, rpc.ErrUnreached):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	own := *s
	own.Targets = slices.Clone(s.Targets)
	streams := make([]bool, len(s.Targets))
	for i := range own.Targets {
		t := &own.Targets[i]
		call, err := schema.Encode(paths[i], t.Body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		t.Body, streams[i] = call.Messages, call.Streams
		t.Header = append([]spec.Field{
			{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
			{Name: "grpc-timeout", Value: callTimeout(s.Timeout)},
		}, t.Header...)
	}
	mix, err := requests(&own)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	for i := range mix {
		mix[i].Streams = streams[i]
	}
	return mix, nil
}

// schemaOf finds the messages of the given paths.
func schemaOf(ctx context.Context, s *spec.Spec, c *tlsconn.Config, to target, host string, paths []string) (*rpc.Schema, error) {
	if s.GRPC.Proto != "" {
		return rpc.Read(s.GRPC.Descriptors, "--proto "+s.GRPC.Proto)
	}
	ctx, cancel := context.WithTimeout(ctx, max(lookupTimeout, s.Timeout))
	defer cancel()
	return rpc.Reflect(ctx, rpc.Server{Name: to.String(), Host: host, TLS: cryptoTLS(c), Dial: to.dial}, paths)
}

// cryptoTLS converts the engine's TLS to that of the standard library; nil without TLS.
func cryptoTLS(c *tlsconn.Config) *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		ServerName: c.ServerName, RootCAs: c.Roots, InsecureSkipVerify: c.Insecure, Certificates: c.Certificates,
		MinVersion: max(c.Offered.Min, tls.VersionTLS12), MaxVersion: c.Offered.Max, CipherSuites: c.Offered.Suites,
		CurvePreferences: c.Offered.Groups,
	}
}

// callTimeout formats a timeout for gRPC: at most eight digits and a unit.
func callTimeout(d time.Duration) string {
	if us := d.Microseconds(); us > 0 && us < 1e8 {
		return strconv.FormatInt(us, 10) + "u"
	}
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10) + "m"
}
