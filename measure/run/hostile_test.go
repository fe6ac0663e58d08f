//go:build linux

package run

import (
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict/prose"
)

func faultyServer(t *testing.T, steps ...faultserver.Step) *faultserver.Server {
	t.Helper()
	s, err := faultserver.Listen("tcp4", "127.0.0.1:0", faultserver.Every(steps...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// A response with bytes behind it that no request asked for is a failed
// request, and a run of such responses never passes.
func TestBadFramingFails(t *testing.T) {
	needs.Engine(t)
	for name, answer := range map[string]string{
		"two answers":      faultserver.OK("x") + faultserver.OK("x"),
		"body too long":    faultserver.OK("x") + "yz",
		"body after 204":   "HTTP/1.1 204 No Content\r\n\r\nbody",
		"body after a 304": "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nbody",
	} {
		t.Run(name, func(t *testing.T) {
			s := faultyServer(t, faultserver.Loop(faultserver.Request(1), faultserver.Write(answer)))
			asked := specOf(s.Address(), "/")
			asked.Connections = 2
			r := &do(t, asked).Run
			if r.Requests.Failed == 0 || r.Requests.Completed > r.Requests.Failed/10 {
				t.Errorf("%+v %v", r.Requests, r.Errors)
			}
			if r.Verdict.Outcome == record.Valid || r.Exit == exit.Pass {
				t.Errorf("%s, exit %d", r.Verdict.Outcome, r.Exit)
			}
			causes := uint64(0)
			for _, e := range r.Errors {
				if e.OfRequest() && !e.BeforeWindow {
					causes += e.Count
				}
			}
			if causes != r.Requests.Failed {
				t.Errorf("%d failed, causes %v", r.Requests.Failed, r.Errors)
			}
		})
	}
}

// A server that is gone for 0.3 s: our attempts to reach it are no requests,
// and the verdict tells how long it was gone, in both loops.
func TestOutageIsTold(t *testing.T) {
	needs.Quiet(t)
	for _, rate := range []string{"", "200"} {
		t.Run("rate "+rate, func(t *testing.T) {
			t.Parallel()
			s := faultyServer(t, faultserver.Answer(faultserver.OK("x")))
			asked := specOf(s.Address(), "/")
			asked.Duration = 6 * time.Second
			if rate != "" {
				asked.Arrivals = spec.Constant
				var err error
				if asked.Rate, err = unit.ParseRate(rate); err != nil {
					t.Fatal(err)
				}
			}
			failed := make(chan error, 1)
			timer := time.AfterFunc(1500*time.Millisecond, func() {
				s.Kill()
				time.Sleep(300 * time.Millisecond)
				failed <- s.Accept()
			})
			t.Cleanup(func() { timer.Stop() })
			r := &do(t, asked).Run
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
			if r.Requests.Failed > uint64(3*asked.Connections) || r.Verdict.Outcome != record.Valid {
				t.Errorf("%s: %+v %v", r.Verdict.Outcome, r.Requests, r.Errors)
			}
			caveats := strings.Join(prose.Texts(r.Verdict.Caveats), "\n")
			_, text, _ := strings.Cut(caveats, "the server was unreachable for ")
			text, _, _ = strings.Cut(text, ",")
			long, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
			if err != nil || long < 250*time.Millisecond || long > 800*time.Millisecond {
				t.Errorf("gone for %v (%v), it was 0.3 s:\n%s", long, err, caveats)
			}
		})
	}
}
