package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"ceiling/show/importer"
)

// An answer is a tool's report of its run.
type answer struct {
	// Completed counts complete responses with status 2xx.
	Completed uint64
	// Bad counts requests that failed or had another status, except those that the tool cancels
	// when its time is over.
	Bad uint64
	// ElapsedS is the duration that the tool reports, seconds.
	ElapsedS float64
	// Ours is what only our document has.
	Ours *ownFigures
}

// rateTolerance is the allowed deviation of a printed rate from count / time. Tools print times
// with as few as three digits (wrk: "2.00s"), and h2load divides by the configured time but
// prints the time until it had stopped, 1 % more on a busy machine. A wrong count is off by more.
const rateTolerance = 0.05

// happened rejects a run without requests or time.
func (a *answer) happened(counted uint64) error {
	if counted == 0 {
		return errors.New("no request was made")
	}
	if a.ElapsedS <= 0 {
		return errors.New("no time has passed")
	}
	return nil
}

// check compares a printed rate with the counted requests and the time.
func (a *answer) check(counted uint64, perS float64) error {
	if err := a.happened(counted); err != nil {
		return err
	}
	if want := float64(counted) / a.ElapsedS; math.Abs(perS-want) > rateTolerance*want {
		return fmt.Errorf("it prints %.1f requests/s, but %d requests in %.3f s are %.1f", perS, counted, a.ElapsedS, want)
	}
	return nil
}

// peer parses the output of another tool, and rejects results that no comparison can rest on: a
// rate that is not count / time, no requests, or of ab -k a connection per request, which is a
// different workload.
func peer(tool string) func([]byte) (answer, error) {
	return func(out []byte) (answer, error) {
		r, err := importer.Parse(out)
		switch {
		case err != nil:
			return answer{}, err
		case r.Tool != tool:
			return answer{}, fmt.Errorf("this is output of %s, want %s", r.Tool, tool)
		case r.RateDiffers:
			return answer{}, errors.New(strings.Join(r.Caveats, "; "))
		case tool == importer.Ab && (r.KeptAlive == nil || *r.KeptAlive != r.Requests+r.Failed()):
			return answer{}, errors.New("not all requests were kept alive: it measured connections too")
		}
		a := answer{ElapsedS: r.DurationS, Bad: r.Failed()}
		for status, n := range r.Statuses {
			if strings.HasPrefix(status, "2") || status == "below 400" {
				a.Completed += n
			} else {
				a.Bad += n
			}
		}
		if a.Completed+a.Bad == 0 {
			return answer{}, errors.New("no request was made")
		}
		return a, nil
	}
}

// requestLength returns the length in bytes of the tool's requests for /simple: it captures one
// and stops the tool. The server's address has as many digits as any other here: free ports have
// five. Others may come earlier, and on the same connection: ceiling checks whether the server offers profiles.
func requestLength(ctx context.Context, t *tool) (int, error) {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	var length atomic.Int64
	type key struct{}
	s := &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n := r.Context().Value(key{}).(*counted).read.Swap(0); r.URL.Path == "/simple" && length.CompareAndSwap(0, n) {
				cancel()
			}
			_, _ = w.Write([]byte(`{"message":"hi"}`)) // the tool may have been stopped
		}),
	}
	go func() { _ = s.Serve(counting{l}) }() // until it is closed
	_, err = t.run(limited, job{URL: "http://" + l.Addr().String() + "/simple", Connections: 1, Pipelining: 1, Duration: time.Second})
	if length.Load() == 0 {
		return 0, errors.Join(errors.New("no request was seen"), err, s.Close())
	}
	return int(length.Load()), s.Close() // the tool's error only says that it was stopped early
}

// counting counts what is read from each connection.
type counting struct{ net.Listener }

type counted struct {
	net.Conn
	read atomic.Int64 // bytes since the last request
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &counted{Conn: c}, err
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}
