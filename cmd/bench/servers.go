package main

import (
	"context"

	"ceiling/measure/cores"
)

// servers are those of the speed part.
type servers struct {
	http1 *served // of the minimum latency too
	tls   *served
	h2    *served
	nginx *served // with HTTP/2; nil if not installed
	// apart is on CPUs of its own, by split; nil if split has none.
	apart *served
	split cores.Split
}

// startServers starts them; after an error, the caller stops those that it has started.
func startServers(ctx context.Context, binary, kind string, split cores.Split) (s servers, err error) {
	s.split = split
	if s.http1, err = serve(ctx, binary, kind); err != nil {
		return s, err
	}
	if s.tls, err = serveCommand(ctx, binary, "serve", kind, "--tls"); err != nil {
		return s, err
	}
	if s.h2, err = serveCommand(ctx, binary, "serve", "nethttp", "--tls"); err != nil {
		return s, err
	}
	if s.nginx, err = serveNginx(ctx); err != nil {
		return s, err
	}
	if len(split.Server) > 0 {
		s.apart, err = serveOn(ctx, split.Server, binary, "serve", kind)
	}
	return s, err
}

// running returns those that run.
func (s *servers) running() (list []*served) {
	for _, one := range []*served{s.http1, s.tls, s.h2, s.nginx, s.apart} {
		if one != nil {
			list = append(list, one)
		}
	}
	return list
}
