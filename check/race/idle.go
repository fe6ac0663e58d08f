package race

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"ceiling/internal/sys"
)

const (
	// holdWanted idle connections are held where the limit of open files allows
	// it; spareFiles of it are left for everything else, here and in a
	// contestant, which has 15/16 of its files for clients.
	holdWanted = 20_000
	spareFiles = 1_500
)

// Idle is what idle connections came to.
type Idle struct {
	// Wanted connections, and Held at the end, each of which answered again.
	Wanted int `json:"wanted"`
	Held   int `json:"held"`
	// BytesPerConnection of the processes' proportional set size.
	BytesPerConnection float64 `json:"bytes_per_connection"`
	// Of the requests that others made at the same time, in a closed loop.
	Requests uint64  `json:"requests"`
	PerS     float64 `json:"per_s"`
	Errors   uint64  `json:"errors"`
}

// hold lets every contestant hold as many idle connections as the host allows,
// while others are served.
func (r *race) hold(ctx context.Context, k *Case, runners []*runner) error {
	soft, hard, err := sys.RaiseOpenFiles(holdWanted + spareFiles)
	if err != nil {
		return err
	}
	asked := cmp.Or(r.Hold, holdWanted)
	wanted := min(asked, int(soft)-spareFiles)
	if wanted < asked {
		r.result.note(fmt.Sprintf("idle: %d connections, not %d: a process may open %d files here (ulimit -H -n), the generator and the contestant each", wanted, asked, hard))
	}
	if wanted < 1 {
		return fmt.Errorf("idle: %d open files are allowed, which leaves none to be held; raise the limit: ulimit -n 20000", soft)
	}
	for _, n := range runners {
		r.say("%s: %s holds %d connections", k.Name, n.Name, wanted)
		idle, err := r.holdOne(ctx, k, n, wanted)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.row.Idle = idle
		if err != nil {
			n.row.NotRaced = err.Error()
		}
	}
	return nil
}

func (r *race) holdOne(ctx context.Context, k *Case, n *runner, wanted int) (*Idle, error) {
	idle := &Idle{Wanted: wanted}
	c := r.config(k, n)
	// Everything that is made once is made before.
	if _, _, err := r.load(ctx, c); err != nil {
		return nil, err
	}
	before, err := proportional(n.child.PID)
	if err != nil {
		return nil, err
	}
	request := requestBytes(question{"GET", k.Path, ""}, n.addr)
	held := make([]net.Conn, 0, wanted)
	defer func() {
		for _, c := range held {
			reset(c)
		}
	}()
	for len(held) < wanted {
		c, err := net.DialTimeout("tcp", n.addr, checkPatience)
		if err == nil {
			held = append(held, c)
			err = answers(ctx, c, request)
		}
		if err != nil {
			return idle, fmt.Errorf("%d of %d connections: %w", len(held), wanted, err)
		}
	}
	after, err := proportional(n.child.PID)
	if err != nil {
		return nil, err
	}
	idle.BytesPerConnection = float64(int64(after)-int64(before)) / float64(wanted)
	res, failed, err := r.load(ctx, c)
	if err != nil {
		return nil, err
	}
	idle.Requests, idle.PerS, idle.Errors = res.Total.Completed, float64(res.Total.Completed)/(float64(res.WindowNs)/1e9), failed
	for _, c := range held {
		if err := answers(ctx, c, request); err != nil {
			return idle, fmt.Errorf("%d of %d connections were held: %w", idle.Held, wanted, err)
		}
		idle.Held++
	}
	return idle, nil
}

// answers makes a request: what is held is a connection that has been used, and can be.
func answers(ctx context.Context, c net.Conn, request []byte) error {
	res, _, err := exchange(c, request, checkPatience)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return errors.Join(err, ctx.Err())
}
