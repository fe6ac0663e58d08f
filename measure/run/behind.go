package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/measure/behind"
)

// openBehind starts watching the servers behind the target. In a run of several agents it does not
// ask the target, which only the agents reach. A database that was named and does not answer
// refuses the run.
func openBehind(ctx context.Context, s *spec.Spec, job Job, o *Options) (*behind.Watch, error) {
	c := behind.Config{Database: o.Database, Host: job.Environment().Host}
	if local, here := job.(localJob); here && !local.target.secure && s.Proxy == "" {
		c.Dial, c.Near = local.target.dial, local.target.local || local.target.unix != ""
		for _, t := range s.Targets {
			if _, path, err := spec.SplitURL(t.URL); err == nil {
				c.Paths = append(c.Paths, path)
			}
		}
	}
	w, err := behind.Open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%w: --database: %w", exit.ErrRefused, err)
	}
	return w, nil
}

// dial opens a connection to the target, separate from the load.
func (t target) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: probeTimeout}
	network, at := "tcp", t.addr.String()
	if t.unix != "" {
		network, at = "unix", t.unix
	}
	c, err := dialer.DialContext(ctx, network, at)
	if err != nil {
		return nil, local(err)
	}
	if len(t.tunnel) > 0 {
		err = throughProxy(ctx, c, t.tunnel)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// withoutPassword removes the password of --database from a command line, whatever else in it is
// hidden.
func withoutPassword(words []string, database string) []string {
	if database == "" {
		return words
	}
	words = slices.Clone(words)
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, database, behind.Shown(database))
	}
	return words
}

// begin starts the queries; window is the zero of the run's clock.
func (r *recorder) begin(window time.Time) {
	if !window.IsZero() {
		r.behind.Start(window, r.Observed)
	}
}
