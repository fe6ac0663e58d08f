//go:build linux

package load

import (
	"context"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ceiling/internal/faultserver"
	"ceiling/internal/http1"
	"ceiling/internal/leak"
	"ceiling/internal/needs"
)

// completes tells whether requests are answered beside those that fail.
type completes int

const (
	never completes = iota
	always
	perhaps // it depends on how the bytes arrive
)

// TestHostile: whatever a server does is counted under its cause, bounded in
// time and memory, and leaves nothing behind.
func TestHostile(t *testing.T) {
	needs.Engine(t)
	ok := faultserver.OK("x")
	response := func(cause string) Fault { return Fault{PhaseResponse, cause} }
	hostile := map[string]func(*testing.T, string){}
	for name, k := range map[string]struct {
		script []faultserver.Step
		want   Fault
		some   completes
	}{
		"reset": {[]faultserver.Step{faultserver.Request(1), faultserver.Reset()}, response("ECONNRESET"), never},
		"reset within": {[]faultserver.Step{faultserver.Request(1), faultserver.Write(ok), faultserver.Request(1),
			faultserver.Write(ok[:20]), faultserver.Reset()}, response("ECONNRESET"), always},
		"close": {[]faultserver.Step{faultserver.Request(1), faultserver.Close()}, response(causeClosed), never},
		"garbage": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("\x00\xff\x16\x03garbage\r\n\r\n"),
			faultserver.Stall()}, response(http1.ErrStatusLine.Error()), never},
		"garbage later": {[]faultserver.Step{faultserver.Request(1), faultserver.Write(ok), faultserver.Request(1),
			faultserver.Write("SSH-2.0"), faultserver.Stall()}, response(http1.ErrStatusLine.Error()), always},
		"endless header": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\n"),
			faultserver.Endless("A: b\r\n")}, Fault{}, never},
		"endless line": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nA: "),
			faultserver.Endless(strings.Repeat("a", 5000))}, response(http1.ErrHeaderTooLarge.Error()), never},
		"endless 1xx": {[]faultserver.Step{faultserver.Request(1), faultserver.Endless("HTTP/1.1 100 Continue\r\n\r\n")},
			response(http1.ErrInterim.Error()), never},
		"endless chunks": {[]faultserver.Step{faultserver.Request(1),
			faultserver.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), faultserver.Endless("1\r\na\r\n")}, response(CauseTimeout),
			never},
		"endless trailers": {[]faultserver.Step{faultserver.Request(1),
			faultserver.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"), faultserver.Endless("A: b\r\n")}, Fault{}, never},
		"length too long": {[]faultserver.Step{faultserver.Request(1),
			faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"), faultserver.Close()}, response(http1.ErrShortBody.Error()),
			never},
		"length too short": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nlong"),
			faultserver.Stall()}, response(causeExtra), perhaps},
		"length not a number": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
			faultserver.Stall()}, response(http1.ErrContentLength.Error()), never},
		"half a head": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nContent-"),
			faultserver.Close()}, response(http1.ErrClosedInHead.Error()), never},
		"half a body": {[]faultserver.Step{faultserver.Request(1),
			faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"), faultserver.Stall()}, response(CauseTimeout), never},
		"half closed":  {[]faultserver.Step{faultserver.HalfClose(), faultserver.Stall()}, Fault{}, never},
		"nothing":      {[]faultserver.Step{faultserver.Stall()}, response(CauseTimeout), never},
		"nothing read": {[]faultserver.Step{faultserver.Deaf()}, response(CauseTimeout), never},
		"unasked":      {[]faultserver.Step{faultserver.Write(ok), faultserver.Stall()}, Fault{}, perhaps},
		"two for one": {[]faultserver.Step{faultserver.Request(1), faultserver.Write(ok + ok), faultserver.Stall()},
			response(causeExtra), perhaps},
		"two for one, later": {[]faultserver.Step{faultserver.Loop(faultserver.Request(1), faultserver.Write(ok), faultserver.Write(ok))},
			response(causeExtra), perhaps},
		"answers without end": {[]faultserver.Step{faultserver.Request(1), faultserver.Endless(ok)}, response(causeExtra), perhaps},
		"hangs up at once":    {[]faultserver.Step{faultserver.Close()}, Fault{}, never},
		"resets at once":      {[]faultserver.Step{faultserver.Reset()}, Fault{}, never},
		"switches protocols": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
			faultserver.Stall()}, Fault{}, always},
		"two encodings": {[]faultserver.Step{faultserver.Request(1),
			faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), faultserver.Stall()},
			response(http1.ErrLengthAndEncoding.Error()), never},
		"status out of bounds": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n"),
			faultserver.Stall()}, Fault{}, always},
	} {
		for _, variant := range []string{"closed", "open", "pipelined"} {
			hostile[name+"/"+variant] = func(t *testing.T, engine string) {
				s, want := serve(t, faultserver.Every(k.script...)), k.want
				c := config(t, s, engine, 0)
				c.Duration, c.Timeout, c.Drain, c.Interval = 3*time.Second, 50*time.Millisecond, 100*time.Millisecond, 20*time.Millisecond
				switch variant {
				case "open":
					c.Rate = perS(2000)
				case "pipelined":
					c.Pipelining = 10
					if want.Cause == causeExtra {
						want = Fault{} // they look like the answer to the next request
					}
				}
				// The run goes on until what is looked for has been seen.
				ctx, enough := context.WithCancel(context.Background())
				defer enough()
				w := &watcher{}
				w.onRow = func(*Tally) {
					n := w.sum
					fault := n.Faults[want] > 0 || want == Fault{} && len(n.Faults) > 0 || n.Statuses[101]+n.Statuses[999] > 0
					if fault && (k.some != always || n.Completed > 0) {
						enough()
					}
				}
				began := time.Now()
				r := start(ctx, t, c, w)
				if took := time.Since(began); took > c.Duration+time.Second {
					t.Errorf("took %v", took)
				}
				if (want != Fault{}) && r.Total.Faults[want] == 0 && r.Setup[want] == 0 {
					t.Errorf("faults %v, before the window %v, want %v", r.Total.Faults, r.Setup, want)
				}
				if len(r.Total.Faults)+len(r.Setup) == 0 && r.Total.Statuses[101]+r.Total.Statuses[999] == 0 {
					t.Error("no fault")
				}
				if k.some != perhaps && (k.some == always) != (r.Total.Completed > 0) {
					t.Errorf("completed %d; faults %v, before the window %v", r.Total.Completed, r.Total.Faults, r.Setup)
				}
				if r.AllocatedBytes > 128<<20 {
					t.Errorf("allocated %d bytes", r.AllocatedBytes)
				}
			}
		}
	}
	defer nothingLeft(t)()
	t.Run("servers", func(t *testing.T) {
		for name, body := range hostile {
			t.Run(name, func(t *testing.T) { eachAtOnce(t, body) })
		}
	})
}

// nothingLeft checks descriptors and goroutines when what it returns is called.
func nothingLeft(t *testing.T) func() {
	descriptorsBefore, ignore := descriptors(), goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		if err := leak.Find(ignore); err != nil {
			t.Error(err)
		}
		if after := settled(descriptorsBefore); after > descriptorsBefore {
			t.Errorf("%d descriptors before, %d after", descriptorsBefore, after)
		}
	}
}

// TestNumberDespiteFaults: with a number of requests each is completed or failed,
// whatever becomes of its connection; no slot is lost.
func TestNumberDespiteFaults(t *testing.T) {
	needs.Engine(t)
	ok := faultserver.OK("x")
	for name, script := range map[string][]faultserver.Step{
		"extra bytes":     {faultserver.AnswerTimes(3, ok), faultserver.Request(1), faultserver.Write(ok + "extra")},
		"extra answers":   {faultserver.AnswerTimes(3, ok), faultserver.Request(1), faultserver.Write(ok + ok), faultserver.Stall()},
		"half at the end": {faultserver.AnswerTimes(3, ok), faultserver.Request(1), faultserver.Write(ok[:30])},
		"resets":          {faultserver.AnswerTimes(3, ok), faultserver.Request(1), faultserver.Write(ok[:30]), faultserver.Reset()},
		"hangs up":        {faultserver.Request(1), faultserver.Close()},
		"garbage":         {faultserver.AnswerTimes(2, ok), faultserver.Request(1), faultserver.Write("nonsense\r\n")},
	} {
		for _, p := range []int{1, 5} {
			for _, open := range []bool{false, true} {
				t.Run(name, func(t *testing.T) {
					eachAtOnce(t, func(t *testing.T, engine string) {
						s := serve(t, faultserver.Every(script...))
						c := config(t, s, engine, 40)
						c.Pipelining, c.Timeout = p, 100*time.Millisecond
						if open {
							c.Rate = perS(2000)
						}
						r := runs(t, c)
						slow := Fault{PhaseConnect, CauseTimeout} // on a busy machine, where a connection may be given up
						late := r.Total.Faults[slow]+r.Setup[slow] > 0
						if r.Total.Completed+r.Total.Failed+r.Unsent != 40 || r.Asked != 40 || r.Unsent != 0 && !late {
							t.Errorf("p %d, open %v: completed %d, failed %d, asked %d, unsent %d; %v", p, open, r.Total.Completed, r.Total.Failed, r.Asked,
								r.Unsent, r.Total.Faults)
						}
					})
				})
			}
		}
	}
}

// TestOneCannotReturn: where one connection of several is closed and cannot be
// opened again, the others do its part of the number.
func TestOneCannotReturn(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		refused := make(chan struct{})
		answer := faultserver.Answer(faultserver.OK("x"))
		s := serve(t, faultserver.InTurn(
			faultserver.Script{faultserver.AnswerTimes(5, faultserver.OK("x")), func(*faultserver.Conn) error { <-refused; return io.EOF }},
			faultserver.Script{answer},
		))
		c := config(t, s, engine, 5000)
		c.Threads = 1
		w := &watcher{}
		w.onOpen = func() {
			for s.Accepted() < 4 { // a listener that closes resets who waits in its queue
				runtime.Gosched()
			}
			s.Refuse()
			close(refused)
		}
		r := start(context.Background(), t, c, w)
		if r.Total.Completed+r.Total.Failed != 5000 || r.Total.Failed > 1 || r.Unsent != 0 {
			t.Errorf("completed %d, failed %d, unsent %d; %v", r.Total.Completed, r.Total.Failed, r.Unsent, r.Total.Faults)
		}
	})
}

// TestNobodyThere: without a server there is no load, and the reason is told.
func TestNobodyThere(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, answering())
		s.Refuse()
		c := config(t, s, engine, 0)
		c.Duration = time.Minute
		began := time.Now()
		w := &watcher{}
		r := start(context.Background(), t, c, w)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		if r.Established != 0 || w.asked != 4 || r.Setup[Fault{PhaseConnect, "ECONNREFUSED"}] < 4 || len(r.Total.Faults) != 0 ||
			len(w.rows) != 0 || r.Interrupted {
			t.Errorf("established %d of %d, before the window %v, in it %v, %d rows", r.Established, w.asked, r.Setup, r.Total.Faults, len(w.rows))
		}
	})
}

// TestServerGoesForGood: a run that only its number of requests ends does not
// wait for ever.
func TestServerGoesForGood(t *testing.T) {
	needs.Engine(t)
	for _, open := range []bool{false, true} {
		bothAtOnceNamed(t, open, func(t *testing.T, engine string) {
			s := serve(t, answering())
			c := config(t, s, engine, 1<<40)
			c.Timeout, c.Interval = 300*time.Millisecond, 20*time.Millisecond
			if open {
				c.Rate = perS(5000)
			}
			w := &watcher{}
			w.onRow = func(*Tally) {
				if len(w.rows) == 3 {
					s.Kill()
				}
			}
			began := time.Now()
			r := start(context.Background(), t, c, w)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if r.Total.Completed == 0 || r.Unsent == 0 || r.Total.Sent+r.Unsent != r.Asked || r.Total.InFlight != 0 {
				t.Errorf("completed %d, asked %d, sent %d, unsent %d, in flight %d", r.Total.Completed, r.Asked, r.Total.Sent, r.Unsent,
					r.Total.InFlight)
			}
			if !open && r.Asked != 1<<40 {
				t.Errorf("asked %d", r.Asked)
			}
		})
	}
}

func bothAtOnceNamed(t *testing.T, open bool, body func(t *testing.T, engine string)) {
	name := "closed"
	if open {
		name = "open"
	}
	t.Run(name, func(t *testing.T) { eachAtOnce(t, body) })
}

// TestServerReturns: the load goes on where the server comes back on its port.
func TestServerReturns(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		s := serve(t, answering())
		c := config(t, s, engine, 0)
		c.Duration, c.Pipelining = 900*time.Millisecond, 3
		w := &watcher{}
		w.onRow = func(*Tally) {
			switch len(w.rows) {
			case 2:
				s.Kill()
			case 4:
				if err := s.Accept(); err != nil {
					t.Error(err)
				}
			}
		}
		r := start(context.Background(), t, c, w)
		last := w.rows[len(w.rows)-1]
		// Failed may be 0: a server that has answered all 12 requests by then cuts connections that wait for none.
		if last.completed == 0 || last.connected != 4 || r.Total.Faults[Fault{PhaseConnect, "ECONNREFUSED"}] == 0 {
			t.Errorf("the last row %+v, failed %d, faults %v", last, r.Total.Failed, r.Total.Faults)
		}
	})
}

// TestInterrupted: the context ends the run at once, at any time of it, and what
// was measured is kept.
func TestInterrupted(t *testing.T) {
	needs.Engine(t)
	for name, k := range map[string]struct {
		script  faultserver.Step
		change  func(*Config)
		at      string
		measure bool
	}{
		"before":     {faultserver.Answer(faultserver.OK("x")), func(c *Config) {}, "before", false},
		"connecting": {faultserver.Answer(faultserver.OK("x")), func(c *Config) { c.ConnectRamp = time.Minute }, "soon", false},
		"warm-up":    {faultserver.Answer(faultserver.OK("x")), func(c *Config) { c.Warmup = time.Minute }, "row", false},
		"window":     {faultserver.Answer(faultserver.OK("x")), func(c *Config) {}, "row", true},
		"open":       {faultserver.Answer(faultserver.OK("x")), func(c *Config) { c.Rate = perS(1000) }, "row", true},
		"no answers": {faultserver.Stall(), func(c *Config) {}, "row", false},
		"drain":      {faultserver.Stall(), func(c *Config) { c.Rate, c.Duration = perS(1000), 100*time.Millisecond }, "row", false},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, faultserver.Every(k.script))
				c := config(t, s, engine, 0)
				c.Duration, c.Timeout, c.Drain, c.Interval = time.Minute, time.Minute, time.Minute, 50*time.Millisecond
				k.change(&c)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var at time.Time
				end := func() { at = time.Now(); cancel() }
				w := &watcher{}
				w.onRow = func(*Tally) {
					if k.at == "row" && len(w.rows) == 2 {
						end()
					}
				}
				switch k.at {
				case "before":
					end()
				case "soon":
					timer := time.AfterFunc(50*time.Millisecond, end)
					defer timer.Stop()
				}
				r := start(ctx, t, c, w)
				if took := time.Since(at); took > time.Second || !r.Interrupted {
					t.Errorf("ended %v after it was told, interrupted: %v", took, r.Interrupted)
				}
				if k.measure != (r.Total.Completed > 0) || k.measure && r.WindowNs < 100e6 {
					t.Errorf("completed %d in %d ns", r.Total.Completed, r.WindowNs)
				}
				if name == "drain" && (r.Asked != 100 || r.Total.Sent != 4 || r.Unsent != 96) {
					t.Errorf("asked %d, sent %d, unsent %d", r.Asked, r.Total.Sent, r.Unsent)
				}
			})
		})
	}
}

// selfConnected is a socket that met itself.
func selfConnected(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Connect(fd, name); err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestNotToItself: a connection to a server is not taken for one to itself, whatever its addresses.
func TestNotToItself(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		for _, network := range []string{"tcp4", "tcp6", "unix"} {
			address := map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": unixPath(t)}[network]
			if r := runs(t, config(t, serveOn(t, network, address, answering()), engine, 1)); r.Total.Completed != 1 {
				t.Errorf("%s: taken for itself: %v", network, r.Total.Faults)
			}
		}
	})
}
