package planted

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/sys"
)

// serverEnv makes the test binary a planted server, as JSON of order, which
// prints its address and serves until it is told to end.
const serverEnv = "CEILING_TEST_PLANTED"

type order struct {
	Kind   string
	Params Params
}

func TestMain(m *testing.M) {
	text := os.Getenv(serverEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err = Serve(ctx, o.Kind, o.Params, func(addr string) { os.Stdout.WriteString(addr + "\n") })
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// spawned is a planted server in a process of its own.
type spawned struct {
	t    *testing.T
	addr string
	pid  int
	cmd  *exec.Cmd
}

func spawn(t *testing.T, kind string, p Params) *spawned {
	t.Helper()
	text, err := json.Marshal(order{kind, p})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &spawned{t: t, pid: cmd.Process.Pid, cmd: cmd}
	t.Cleanup(func() { s.end(syscall.SIGTERM) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not come up: %v", kind, err)
	}
	s.addr = strings.TrimSpace(line)
	return s
}

// end tells the server to end and waits until it has.
func (s *spawned) end(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	err := s.cmd.Wait()
	s.cmd = nil
	if err != nil && sig == syscall.SIGTERM {
		s.t.Errorf("the server ended with %v", err)
	}
}

// cpu is the CPU time that the server has used.
func (s *spawned) cpu() time.Duration {
	s.t.Helper()
	ns, err := sys.ProcessClockNs(s.pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return time.Duration(ns)
}

// children of the server, by their parent's number in /proc/PID/stat.
func (s *spawned) children() []int {
	s.t.Helper()
	all, err := sys.Processes()
	if err != nil {
		s.t.Fatal(err)
	}
	var pids []int
	for pid, p := range all {
		if p.Parent == s.pid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// driven is what a closed loop of requests came to.
type driven struct {
	elapsed  time.Duration
	statuses map[int]int
	failed   int
	least    time.Duration
	most     time.Duration
}

func (d *driven) perSecond() float64 { return float64(d.statuses[200]) / d.elapsed.Seconds() }

// drive keeps n requests in flight until so many have been made, or for d. A
// request that was begun is awaited.
func drive(t *testing.T, addr string, n, requests int, d time.Duration) *driven {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	out := &driven{statuses: map[int]int{}, least: time.Hour}
	var mu sync.Mutex
	left := requests
	take := func() bool {
		mu.Lock()
		defer mu.Unlock()
		left--
		return left >= 0
	}
	started := time.Now()
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			for time.Since(started) < d && take() {
				begun := time.Now()
				status := 0
				res, err := client.Get("http://" + addr + "/")
				if err == nil {
					status = res.StatusCode
					_, err = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
				took := time.Since(begun)
				mu.Lock()
				out.least, out.most = min(out.least, took), max(out.most, took)
				if err != nil {
					out.failed++
				} else {
					out.statuses[status]++
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	out.elapsed = time.Since(started)
	return out
}

// between fails the test where a figure is not what was planted.
func between(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if !(got >= low && got <= high) {
		t.Errorf("%s is %.4g, planted was %.4g to %.4g", what, got, low, high)
	}
}

// manyRequests is more than any test makes in its time.
const manyRequests = 1 << 30
