//go:build linux

package load

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
)

// longCase is a server of long bodies, and how it is asked.
type longCase struct {
	script faultserver.Script
	unix   bool
	change func(*Config)
	// bytes of so many answers, which the script sends in turn on one connection
	bytes, answers int
}

func longCases() map[string]longCase {
	long, short := faultserver.OK(strings.Repeat("l", 300_000)), faultserver.OK("s")
	last := faultserver.Response("200 OK", "Connection: close\r\n", strings.Repeat("e", 200_000))
	chunk := "10000\r\n" + strings.Repeat("c", 0x10000) + "\r\n"
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 3) + "0\r\n\r\n"
	one := func(b string) faultserver.Step { return faultserver.AnswerTimes(1, b) }
	always := longCase{script: faultserver.Script{faultserver.Answer(long)}, bytes: len(long), answers: 1}
	with := func(change func(*Config)) longCase {
		c := always
		c.change = change
		return c
	}
	single := func(c *Config) { c.Connections, c.Threads = 1, 1 }
	unix := always
	unix.unix = true
	return map[string]longCase{
		"long":            always,
		"unix":            unix,
		"pipelined":       with(func(c *Config) { c.Pipelining = 4 }),
		"new connections": with(func(c *Config) { c.NewConnections = 1 }),
		"open loop":       with(func(c *Config) { c.Rate = perS(2000) }),
		"in turn": {
			script: faultserver.Script{faultserver.Loop(one(long), one(short), one(chunked), one(short))}, change: single,
			bytes: len(long) + 2*len(short) + len(chunked), answers: 4,
		},
		"ends after 4": {script: faultserver.Script{faultserver.AnswerTimes(4, long), faultserver.Close()}, bytes: len(long), answers: 1},
		"says close": {
			script: faultserver.Script{one(long), one(last), faultserver.Close()}, change: single,
			bytes: len(long) + len(last), answers: 2,
		},
	}
}

// TestLongBodies: bodies that the kernel discards are framed as any others, and each
// of their bytes is counted, whatever else comes on the connection.
func TestLongBodies(t *testing.T) {
	needs.Engine(t)
	for name, of := range longCases() {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, engine string) {
				network, address := "tcp4", "127.0.0.1:0"
				if of.unix {
					network, address = "unix", unixPath(t)
				}
				s := serveOn(t, network, address, faultserver.Every(of.script...))
				const n = 200
				c := config(t, s, engine, n)
				if of.change != nil {
					of.change(&c)
				}
				r := runs(t, c)
				clean(t, r, n)
				if want := uint64(n / of.answers * of.bytes); r.Total.Read != want {
					t.Errorf("%d bytes read, the server sent %d", r.Total.Read, want)
				}
			})
		})
	}
}

// TestTurnsAtTheEnd: a connection is read as it comes until its first long body has
// ended, then singly; a piece of the next long body asks for the rest's discard.
func TestTurnsAtTheEnd(t *testing.T) {
	onThread(t, func(t *testing.T, w *worker, c *conn) {
		long, tag := faultserver.OK(strings.Repeat("l", 300_000)), c.tag(0)
		w.handle(&ring.Event{Kind: ring.Received, Tag: tag, Data: []byte(long[:16<<10])})
		if c.reads != turning || !w.long {
			t.Fatalf("reads %d in a long body", c.reads)
		}
		w.handle(&ring.Event{Kind: ring.Received, Tag: tag, Data: []byte(long[16<<10:])})
		if c.reads != singly || w.tally.Completed != 1 {
			t.Fatalf("reads %d behind it, completed %d", c.reads, w.tally.Completed)
		}
		w.fill(3)
		w.handle(&ring.Event{Kind: ring.Received, Tag: tag, Data: []byte(long[:16<<10])})
		rest := int(c.reader.Rest())
		w.handle(&ring.Event{Kind: ring.Discarded, Tag: tag, N: rest - 10})
		w.handle(&ring.Event{Kind: ring.Discarded, Tag: tag, N: 10})
		if w.tally.Completed != 2 || w.tally.Read != uint64(2*len(long)) || w.tally.Sent != 3 {
			t.Errorf("completed %d, read %d, sent %d", w.tally.Completed, w.tally.Read, w.tally.Sent)
		}
	})
}

// TestLongBodyBreaks: a body that ends early, stalls or has bytes behind it fails
// as a short one does, discarded or not.
func TestLongBodyBreaks(t *testing.T) {
	needs.Engine(t)
	whole := faultserver.OK(strings.Repeat("l", 300_000))
	half := whole[:200_000]
	for name, of := range map[string]struct {
		last   faultserver.Script
		causes []string
	}{
		"closed":  {faultserver.Script{faultserver.Request(1), faultserver.Raw(half), faultserver.Close()}, []string{"short body"}},
		"reset":   {faultserver.Script{faultserver.Request(1), faultserver.Raw(half), faultserver.Reset()}, []string{"ECONNRESET"}},
		"stalled": {faultserver.Script{faultserver.Request(1), faultserver.Raw(half), faultserver.Stall()}, []string{CauseTimeout}},
		"behind": {faultserver.Script{faultserver.Request(1), faultserver.Raw(whole + "more"), faultserver.Stall()},
			[]string{causeExtra, "malformed status line"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, faultserver.Every(append(faultserver.Script{faultserver.AnswerTimes(3, whole)}, of.last...)...))
				c := config(t, s, engine, 12)
				c.Connections, c.Threads, c.Timeout = 1, 1, 500*time.Millisecond
				r := runs(t, c)
				for f := range r.Total.Faults {
					if !slices.Contains(of.causes, f.Cause) {
						t.Errorf("%+v, not of %q", f, of.causes)
					}
				}
				if len(r.Total.Faults) == 0 || r.Total.Completed+r.Total.Failed != 12 {
					t.Errorf("faults %v, completed %d, failed %d", r.Total.Faults, r.Total.Completed, r.Total.Failed)
				}
			})
		})
	}
}
