package race

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"ceiling/internal/sys"
	"ceiling/measure/load"
)

const (
	// holdWanted idle connections are held where the limit of open files allows
	// it; spareFiles of it are left for everything else, here and in a
	// contestant, which has 15/16 of its files for clients.
	holdWanted = 20_000
	spareFiles = 1_500
	// dialers open them side by side.
	dialers = 8
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
	asked := r.Hold
	if asked == 0 {
		asked = holdWanted
	}
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
	if _, err := load.Run(ctx, c, quiet{}); err != nil {
		return nil, err
	}
	before, err := proportional(n.child.PID)
	if err != nil {
		return nil, err
	}
	h := &holder{addr: n.addr, request: requestBytes(question{"GET", k.Path, ""}, n.addr), conns: make([]net.Conn, wanted)}
	defer h.close()
	if err := h.each(ctx, h.dial); err != nil {
		return idle, fmt.Errorf("%d of %d connections: %w", h.open(), wanted, err)
	}
	after, err := proportional(n.child.PID)
	if err != nil {
		return nil, err
	}
	idle.BytesPerConnection = float64(int64(after)-int64(before)) / float64(wanted)
	res, err := load.Run(ctx, c, quiet{})
	if err != nil {
		return nil, err
	}
	idle.Requests, idle.PerS = res.Total.Completed, float64(res.Total.Completed)/(float64(res.WindowNs)/1e9)
	idle.Errors = res.Total.Failed + res.Total.Bad + uint64(r.Connections-res.Established)
	err = h.each(ctx, h.ask)
	idle.Held = h.open()
	if err != nil {
		return idle, fmt.Errorf("%d of %d connections were held: %w", idle.Held, wanted, err)
	}
	return idle, nil
}

// holder has connections that nothing happens on.
type holder struct {
	addr    string
	request []byte
	conns   []net.Conn // nil: not open
}

func (h *holder) open() (n int) {
	for _, c := range h.conns {
		if c != nil {
			n++
		}
	}
	return n
}

// each does something for every connection, until the first error.
func (h *holder) each(ctx context.Context, do func(i int, in *bufio.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, dialers)
	var wait sync.WaitGroup
	for d := range dialers {
		wait.Go(func() {
			in := bufio.NewReader(nil)
			for i := d; i < len(h.conns) && ctx.Err() == nil; i += dialers {
				if errs[d] = do(i, in); errs[d] != nil {
					cancel()
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(append(errs, context.Cause(ctx))[:dialers]...)
}

func (h *holder) dial(i int, in *bufio.Reader) error {
	c, err := net.DialTimeout("tcp", h.addr, checkPatience)
	if err != nil {
		return err
	}
	h.conns[i] = c
	return h.ask(i, in)
}

// ask makes a request: what is held is a connection that has been used, and can be.
func (h *holder) ask(i int, in *bufio.Reader) error {
	c := h.conns[i]
	err := c.SetDeadline(time.Now().Add(checkPatience))
	if err == nil {
		_, err = c.Write(h.request)
	}
	if err == nil {
		in.Reset(c)
		var res *http.Response
		if res, _, err = readAnswer(in, http.MethodGet); err == nil && res.StatusCode != http.StatusOK {
			err = errors.New(res.Status)
		}
	}
	if err != nil {
		_ = c.Close() // what it says matters less than err
		h.conns[i] = nil
	}
	return err
}

// close resets the connections: 20,000 that are closed in order would keep their
// ports for a minute.
func (h *holder) close() {
	for _, c := range h.conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // then close waits for nothing
			_ = t.Close()
		}
	}
}
