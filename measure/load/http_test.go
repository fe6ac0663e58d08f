//go:build linux

package load

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// TestFraming: every way of HTTP/1.1 to end a response, whole and byte by byte.
func TestFraming(t *testing.T) {
	needs.Engine(t)
	const n = 40
	close := "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("until the close ", 20)
	for name, c := range map[string]struct {
		answer    string
		status    int
		method    string
		reconnect bool
	}{
		"length":   {answer: faultserver.OK("hello"), status: 200},
		"length 0": {answer: faultserver.OK(""), status: 200},
		"long":     {answer: faultserver.OK(strings.Repeat("x", 5000)), status: 200},
		"error":    {answer: faultserver.Response("503 No", "", "sorry"), status: 503},
		"chunked": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1f;x=y\r\n" + strings.Repeat("z", 31) +
			"\r\n0\r\n\r\n", status: 200},
		"trailers": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\n",
			status: 200},
		"interim": {answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + faultserver.OK("x"),
			status: 200},
		"204":             {answer: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		"304":             {answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n", status: 304},
		"head":            {answer: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", status: 200, method: "HEAD"},
		"HTTP/1.0":        {answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, reconnect: true},
		"HTTP/1.0 keep":   {answer: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", status: 200},
		"close":           {answer: faultserver.Response("200 OK", "Connection: close\r\n", "bye"), status: 200, reconnect: true},
		"close-delimited": {answer: close, status: 200, reconnect: true},
	} {
		for _, piece := range []int{1 << 20, 1, 7} {
			t.Run(fmt.Sprintf("%s/%d", name, piece), func(t *testing.T) {
				eachAtOnce(t, func(t *testing.T, engine string) {
					script := faultserver.Script{faultserver.Loop(faultserver.Request(1), faultserver.Drip(c.answer, piece))}
					if c.reconnect {
						script = faultserver.Script{faultserver.Request(1), faultserver.Drip(c.answer, piece)}
					}
					s := serve(t, func(int) faultserver.Script { return script })
					conf := config(t, s, engine, n)
					if c.method != "" {
						conf.Mix[0].Bytes, conf.Mix[0].NoBody = []byte(c.method+" / HTTP/1.1\r\nHost: x\r\n\r\n"), true
					}
					r := runs(t, conf)
					clean(t, r, n)
					if r.Total.Statuses[c.status] != n {
						t.Errorf("%d with status %d, want %d", r.Total.Statuses[c.status], c.status, n)
					}
					if bad := c.status >= 400; bad != (r.Total.Bad == n) {
						t.Errorf("%d bad of %d", r.Total.Bad, n)
					}
					if want := uint64(n * len(c.answer)); r.Total.Read != want {
						t.Errorf("read %d bytes, want %d", r.Total.Read, want)
					}
					if s.Requests() != r.Total.Sent || r.Total.Sent != n || r.Asked != n || r.Unsent != 0 {
						t.Errorf("the server had %d requests, sent %d, asked %d, unsent %d", s.Requests(), r.Total.Sent, r.Asked, r.Unsent)
					}
					if want := s.Bytes(); r.Total.Written != want {
						t.Errorf("wrote %d bytes, the server had %d", r.Total.Written, want)
					}
				})
			})
		}
	}
}

// TestNetworks: IPv4, IPv6 and unix sockets.
func TestNetworks(t *testing.T) {
	needs.Engine(t)
	for _, network := range []string{"tcp4", "tcp6", "unix"} {
		t.Run(network, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				address := map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": unixPath(t)}[network]
				s := serveOn(t, network, address, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
				r := runs(t, config(t, s, engine, 500))
				clean(t, r, 500)
				if s.Requests() != 500 || r.Engine != engine {
					t.Errorf("the server had %d requests from %s", s.Requests(), r.Engine)
				}
			})
		})
	}
}

// TestKeepAliveLimit: a server that closes after k answers costs reconnects and
// no error, whether it says so or not; what was on its way goes out again.
func TestKeepAliveLimit(t *testing.T) {
	needs.Engine(t)
	const n = 3000
	ok, last := faultserver.OK("x"), faultserver.Response("200 OK", "Connection: close\r\n", "x")
	for _, said := range []bool{true, false} {
		for _, pipelining := range []int{1, 3, 16} {
			t.Run(fmt.Sprintf("said=%v/%d", said, pipelining), func(t *testing.T) {
				eachAtOnce(t, func(t *testing.T, engine string) {
					final := ok
					if said {
						final = last
					}
					s := serve(t, faultserver.Every(faultserver.AnswerTimes(9, ok), faultserver.AnswerTimes(1, final)))
					c := config(t, s, engine, n)
					c.Pipelining = pipelining
					r := runs(t, c)
					clean(t, r, n)
					n := &r.Total
					if n.Reconnects < 3000/10-4 || n.Sent != 3000 {
						t.Errorf("%d reconnects, sent %d", n.Reconnects, n.Sent)
					}
					if pipelining > 1 && n.Resent == 0 {
						t.Error("nothing was sent again")
					}
					// The server answered what it took, and took no request twice
					// but those whose answer was lost with a reset.
					if got := s.Requests(); got < n.Completed || got > n.Sent+n.Resent {
						t.Errorf("the server had %d requests; sent %d, sent again %d", got, n.Sent, n.Resent)
					}
				})
			})
		}
	}
}

// TestPipelining: 1 to 100 requests in flight, answers merged and cut anywhere.
func TestPipelining(t *testing.T) {
	needs.Engine(t)
	for _, p := range []int{1, 2, 7, 32, 100} {
		for _, piece := range []int{0, 1, 13, 1000} {
			t.Run(fmt.Sprintf("%d/%d", p, piece), func(t *testing.T) {
				eachAtOnce(t, func(t *testing.T, engine string) {
					n := uint64(2003)
					answer := faultserver.OK("hello")
					script := faultserver.Script{faultserver.Answer(answer)}
					if piece > 0 {
						k := max(1, min(p/3, 10))
						script = faultserver.Script{faultserver.Loop(faultserver.Request(k), faultserver.Drip(strings.Repeat(answer, k), piece))}
						// What the last requests of a connection wait for may never
						// fill a group of k, so the server's count ends this run.
						if k > 1 {
							n = 0
						}
					}
					s := serve(t, func(int) faultserver.Script { return script })
					c := config(t, s, engine, n)
					c.Pipelining = p
					ctx, stop := context.WithCancel(context.Background())
					defer stop()
					if n == 0 {
						c.Duration = time.Minute
						go func() {
							for s.Requests() < 1000 && ctx.Err() == nil {
								time.Sleep(time.Millisecond)
							}
							stop()
						}()
					}
					r := start(ctx, t, c, &watcher{})
					if n > 0 {
						clean(t, r, n)
						if s.Requests() != n {
							t.Errorf("the server had %d requests, want %d", s.Requests(), n)
						}
						return
					}
					if r.Total.Completed < 100 || len(r.Total.Faults) > 0 || r.Total.InFlight+r.Total.Completed != r.Total.Sent {
						t.Errorf("completed %d of %d, in flight %d, faults %v", r.Total.Completed, r.Total.Sent, r.Total.InFlight, r.Total.Faults)
					}
				})
			})
		}
	}
}

// TestExactNumber: -n is what is completed, with fewer than threads, than slots,
// after a warm-up, and with a time that is not reached.
func TestExactNumber(t *testing.T) {
	needs.Engine(t)
	for _, n := range []uint64{1, 2, 3, 5, 17, 63, 64, 65, 1000} {
		for _, warmup := range []time.Duration{0, 1, 30 * time.Millisecond} {
			for _, p := range []int{1, 16} {
				t.Run(fmt.Sprintf("%d/%v/%d", n, warmup, p), func(t *testing.T) {
					eachAtOnce(t, func(t *testing.T, engine string) {
						s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
						c := config(t, s, engine, n)
						c.Threads, c.Connections, c.Pipelining, c.Warmup, c.Duration = 3, 4, p, warmup, time.Minute
						began := time.Now()
						r := runs(t, c)
						clean(t, r, n)
						if r.Asked != n || r.Unsent != 0 || warmup == 0 && s.Requests() != n {
							t.Errorf("asked %d, unsent %d, the server had %d", r.Asked, r.Unsent, s.Requests())
						}
						if took := time.Since(began); took > 10*time.Second {
							t.Errorf("took %v", took)
						}
					})
				})
			}
		}
	}
}

// TestExactNumberOpen: the same on a schedule, and the time it takes is that of
// the schedule and not of the waiting for events that cannot come.
func TestExactNumberOpen(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
		c := config(t, s, engine, 101)
		c.Rate = perS(1000)
		r := runs(t, c)
		clean(t, r, 101)
		if r.Asked != 101 || r.Unsent != 0 || s.Requests() != 101 {
			t.Errorf("asked %d, unsent %d, the server had %d", r.Asked, r.Unsent, s.Requests())
		}
		// Request 100 is due at 100 ms.
		if ms := r.WindowNs / 1e6; ms < 100 || ms > 180 {
			t.Errorf("the window was %d ms", ms)
		}
	})
}

// TestNewConnections: a connection for each request, none more than needed.
// After a number of requests a connection is closed here, whatever is pipelined on it: no request is sent
// twice, and each connection but the last has had them all.
func TestRequestsPerConnection(t *testing.T) {
	needs.Engine(t)
	for name, k := range map[string]struct{ per, pipelining int }{"7": {7, 1}, "7, deep": {7, 3}, "2, deeper": {2, 16}} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
				c := config(t, s, engine, 700)
				c.NewConnections, c.Pipelining, c.Connections, c.Threads = k.per, k.pipelining, 2, 1
				r := runs(t, c)
				clean(t, r, 700)
				if least := 700 / k.per; s.Requests() != 700 || r.Total.Resent != 0 || s.Accepted() < least || s.Accepted() > least+2 {
					t.Errorf("%d requests over %d connections, %d sent again", s.Requests(), s.Accepted(), r.Total.Resent)
				}
			})
		})
	}
}

func TestNewConnections(t *testing.T) {
	needs.Engine(t)
	for _, p := range []int{1, 4} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
				c := config(t, s, engine, 300)
				c.NewConnections, c.Pipelining = 1, p
				r := runs(t, c)
				clean(t, r, 300)
				if s.Requests() != 300 || s.Accepted() != 300 || r.Opened != 300 || r.Total.Reconnects != 0 {
					t.Errorf("%d requests, %d accepted, %d opened, %d reconnects", s.Requests(), s.Accepted(), r.Opened, r.Total.Reconnects)
				}
			})
		})
	}
}

// TestNewConnectionsOpen: on a schedule too, with one request on each.
func TestNewConnectionsOpen(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.Request(1), faultserver.Write(faultserver.OK("x")), faultserver.Close()))
		c := config(t, s, engine, 300)
		c.NewConnections, c.Pipelining, c.Rate = 1, 4, perS(3000)
		r := runs(t, c)
		clean(t, r, 300)
		if s.Requests() != 300 {
			t.Errorf("%d requests", s.Requests())
		}
	})
}

// TestConnectRamp: the connections open over the time asked for, also few.
func TestConnectRamp(t *testing.T) {
	needs.Engine(t)
	for _, conns := range []int{1, 3, 40} {
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
				c := config(t, s, engine, 100)
				c.Connections, c.Threads, c.ConnectRamp = conns, 1, 200*time.Millisecond
				began := time.Now()
				r := runs(t, c)
				clean(t, r, 100)
				// The last of k opens after (k-1)/k of the ramp.
				least := 200 * time.Millisecond * time.Duration(conns-1) / time.Duration(conns)
				if opened := r.Started.Sub(began); opened < least || r.Established != conns || s.Accepted() != conns {
					t.Errorf("the window opened after %v, want %v or more; %d of %d stood", opened, least, r.Established, conns)
				}
			})
		})
	}
}

// TestMix: weights are exact over whole rounds, and each target has its own
// book.
func TestMix(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
		c := config(t, s, engine, 600)
		c.Connections, c.Threads, c.Pipelining = 1, 1, 7
		c.Mix = nil
		for i, weight := range []int{30, 20, 10} { // rounds of 6
			body := strings.Repeat("b", 10*i)
			c.Mix = append(c.Mix, Request{Weight: weight,
				Bytes: fmt.Appendf(nil, "POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", i, len(body), body)})
		}
		r := runs(t, c)
		clean(t, r, 600)
		for i, want := range []uint64{300, 200, 100} {
			b := &r.Total.ByTarget[i]
			if b.Completed != want || uint64(b.Statuses[200]) != b.Completed || b.Response.Count() != want {
				t.Errorf("target %d: completed %d, want %d; statuses %v", i, b.Completed, want, b.Statuses)
			}
		}
		if s.Requests() != 600 || s.Bytes() != r.Total.Written {
			t.Errorf("the server had %d requests and %d of %d bytes", s.Requests(), s.Bytes(), r.Total.Written)
		}
	})
}

// TestLargeRequests: 1 MB bodies arrive whole, also pipelined, also where the
// answer comes before the body was read, or the server hangs up on it.
func TestLargeRequests(t *testing.T) {
	needs.Engine(t)
	post := func() []Request {
		return []Request{{Weight: 1, Bytes: append([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"),
			make([]byte, 1e6)...)}}
	}
	ok := faultserver.OK("x")
	tooLarge := faultserver.Response("413 Too Large", "Connection: close\r\n", "")
	for name, c := range map[string]struct {
		script     faultserver.Script
		pipelining int
		check      func(t *testing.T, r *Result, s *faultserver.Server)
	}{
		"whole":     {faultserver.Script{faultserver.Answer(ok)}, 1, nil},
		"pipelined": {faultserver.Script{faultserver.Answer(ok)}, 4, nil},
		"slow":      {faultserver.Script{faultserver.SmallBuffers(), faultserver.Answer(ok)}, 2, nil},
		"early":     {faultserver.Script{faultserver.Loop(faultserver.Head(), faultserver.Write(ok), faultserver.Body())}, 3, nil},
		"refused": {faultserver.Script{faultserver.Head(), faultserver.Write(tooLarge), faultserver.Stall()}, 1,
			func(t *testing.T, r *Result, s *faultserver.Server) {
				if r.Total.Statuses[413] != 60 || len(r.Total.Faults) > 0 {
					t.Errorf("statuses 413: %d, faults %v", r.Total.Statuses[413], r.Total.Faults)
				}
			}},
		"refused, closed": {faultserver.Script{faultserver.Head(), faultserver.Write(tooLarge), faultserver.Close()}, 1,
			func(t *testing.T, r *Result, s *faultserver.Server) {
				if r.Total.Statuses[413]+r.Total.Failed != 60 || r.Total.Statuses[413] < 50 {
					t.Errorf("statuses 413: %d, failed %d: %v", r.Total.Statuses[413], r.Total.Failed, r.Total.Faults)
				}
			}},
		"hung up": {faultserver.Script{faultserver.Head(), faultserver.Reset()}, 1, func(t *testing.T, r *Result, s *faultserver.Server) {
			if r.Total.Failed != 60 || r.Total.Completed != 0 {
				t.Errorf("failed %d, completed %d", r.Total.Failed, r.Total.Completed)
			}
			for f := range r.Total.Faults {
				if f.Cause != "ECONNRESET" && f.Cause != "EPIPE" {
					t.Errorf("fault %v", f)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, func(int) faultserver.Script { return c.script })
				conf := config(t, s, engine, 60)
				conf.Mix, conf.Pipelining = post(), c.pipelining
				r := runs(t, conf)
				if c.check != nil {
					c.check(t, r, s)
					return
				}
				clean(t, r, 60)
				// An early answer may end the run before its body is sent.
				if early := name == "early"; !early && (s.Requests() != 60 || s.Bytes() != r.Total.Written) {
					t.Errorf("the server had %d requests and %d of %d bytes", s.Requests(), s.Bytes(), r.Total.Written)
				}
			})
		})
	}
}

// TestRedirectsAreKept: where the first of each status leads, in every protocol, without what may be
// a secret.
func TestRedirectsAreKept(t *testing.T) {
	needs.Engine(t)
	want := []Redirect{{302, "https://sso.example/login"}}
	const location = "https://me:secret@sso.example/login?token=1#x"
	elsewhere := func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Location", location)
		out.WriteHeader(http.StatusFound)
	}
	check := func(t *testing.T, r *Result) {
		t.Helper()
		if !reflect.DeepEqual(r.Redirects, want) || r.Total.Bad != 0 || len(r.Errors) != 0 {
			t.Errorf("%+v, %d bad, errors %+v", r.Redirects, r.Total.Bad, r.Errors)
		}
	}
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.Answer(faultserver.Response("302 Found", "LOCATION: "+location+"\r\n", ""))))
		check(t, runs(t, config(t, s, engine, 100)))
		check(t, runs(t, newGoServer(t, false, nil, elsewhere).config(t, engine, 100, 4)))
	})
}
