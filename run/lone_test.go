package run

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ceiling/record"
)

// waits are servers whose requests wait for what is known, by name; each makes
// the wait of one server.
func waits() map[string]func() func() {
	const ms = time.Millisecond
	return map[string]func() func(){
		// 19 of 20 take 3 ms, one takes 100 times as long: nothing is shared.
		"tail": func() func() {
			return func() {
				if rand.IntN(20) == 0 {
					time.Sleep(300 * ms)
				} else {
					time.Sleep(3 * ms)
				}
			}
		},
	}
}

// serveWaits makes this process one of them, until it is ended.
func serveWaits(kind string) {
	wait := waits()[kind]()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Printf("%s serves on %s\n", kind, l.Addr())
		err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			wait()
			fmt.Fprint(w, "ok")
		}))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestLittleOfShortRuns: a closed loop of a heavy tail is never void by Little's
// law, however short; that the edges of its windows weigh far more than the
// tolerance is what makes it a test.
func TestLittleOfShortRuns(t *testing.T) {
	c := startAs(t, "RUN_TEST_WAITS", "tail")
	apart := 0
	for range 20 {
		s := specOf(c.Addr, "/")
		s.Connections, s.Duration = 64, 100*time.Millisecond
		r := &do(t, s).Run
		if strings.Contains(r.Verdict.Because, "Little's law") || r.Edges == nil {
			t.Fatalf("%s: %s (edges %+v)", r.Verdict.Outcome, r.Verdict.Because, r.Edges)
		}
		if r.Verdict.Outcome == record.Void || r.Requests.Completed == 0 {
			continue // for want of answers, which is its own reason
		}
		if n := r.Rate.CompletedPerS * r.Latency.Response.MeanNs / 1e9; n < 0.9*64 || n > 1.1*64 {
			apart++
		}
	}
	if apart < 5 {
		t.Errorf("the rate times the mean was apart from the slots in %d of 20 runs", apart)
	}
}
