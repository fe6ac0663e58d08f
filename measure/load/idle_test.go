//go:build linux

package load

import (
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// pause lets time pass.
func pause(d time.Duration) faultserver.Step {
	return func(*faultserver.Conn) error {
		time.Sleep(d)
		return nil
	}
}

// TestIdleTimeout: a server that closes idle connections costs reconnects, and the time that they
// were idle for is known; with a 408 too.
func TestIdleTimeout(t *testing.T) {
	needs.Engine(t)
	const idle = 60 * time.Millisecond
	for name, before := range map[string]faultserver.Step{
		"closed":       pause(0),
		"408":          faultserver.Write("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
		"408 in parts": faultserver.Write("HTTP/1.0 408 Request Time-out\r\nConnection: close\r\n\r\n<html>"),
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, faultserver.Every(faultserver.AnswerTimes(1, faultserver.OK("x")), pause(idle), before, faultserver.Close()))
				c := config(t, s, engine, 0)
				c.Rate, c.Duration = perS(10), time.Second // each connection is due every 400 ms
				r := runs(t, c)
				n := &r.Total
				if n.Failed != 0 || len(n.Faults) != 0 || n.Reconnects == 0 || n.Closes.Idle == 0 {
					t.Fatalf("%d failed, %v, %d reconnects, closes %+v", n.Failed, n.Faults, n.Reconnects, n.Closes)
				}
				if mean := time.Duration(n.Closes.IdleNs / n.Closes.Idle); mean < idle/2 {
					t.Errorf("closed after %v", mean)
				}
			})
		})
	}
}

// TestIdleTimeoutCrossesARequest: a connection that ends with a request on the wire, after the time
// for which the server leaves idle ones open, has timed out.
func TestIdleTimeoutCrossesARequest(t *testing.T) {
	w := &worker{shared: &shared{}, pipelining: 1, tally: newTally(1), conns: make([]conn, 1)}
	w.now = int64(time.Second)
	w.endedIdle(&conn{served: 7})
	c := &w.conns[0]
	for _, k := range []struct {
		served uint32
		idleMs int64
		want   bool
	}{{3, 1000, true}, {4, 950, true}, {5, 10, false}, {9, 0, false}} {
		c.served, c.onWire, c.since = k.served, 1, 5e9
		c.one[0] = flight{sent: c.since + k.idleMs*1e6, n: 1}
		if got := w.limited(0, c); got != k.want {
			t.Errorf("after %d responses, idle for %d ms: %v", k.served, k.idleMs, got)
		}
	}
}
