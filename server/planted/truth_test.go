package planted

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/sys"
)

// The upper bounds below are what was planted and hold on any machine. The
// lower ones allow for one on which others work as well.

func TestCPUIsPaidByEveryRequest(t *testing.T) {
	needs.Quiet(t)
	const little, much = 10 * time.Microsecond, 310 * time.Microsecond
	cost := func(each time.Duration) time.Duration {
		s := spawn(t, "cpu", Params{CPU: each})
		before := s.cpu()
		d := drive(t, s.addr, 8, 1000, time.Minute)
		return (s.cpu() - before) / time.Duration(d.statuses[200])
	}
	// What net/http and TCP cost besides is in both: 15 to 50 µs, and several
	// times that with the race detector.
	a, b := cost(little), cost(much)
	between(t, "CPU of a request over what was planted", (b-a).Seconds()/(much-little).Seconds(), 0.8, 1.4)
}

func TestOneThreadDoesTheWork(t *testing.T) {
	needs.Quiet(t)
	const each = 400 * time.Microsecond
	s := spawn(t, "thread", Params{CPU: each})
	d := drive(t, s.addr, 16, manyRequests, time.Second)
	between(t, "rate", d.perSecond(), 0.1/each.Seconds(), 1.01/each.Seconds()) // others may take most of the CPU
	var busiest, sum time.Duration
	tids, err := sys.Threads(s.pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		used := threadCPU(t, s.pid, tid)
		busiest, sum = max(busiest, used), sum+used
	}
	between(t, "CPU of the busiest thread over the work", busiest.Seconds()/(float64(d.statuses[200])*each.Seconds()), 0.98, 1.3)
	if len(tids) < 3 {
		t.Errorf("there are %d threads: others should read and write", len(tids))
	}
}

// threadCPU reads the first field of schedstat, nanoseconds on a CPU.
func threadCPU(t *testing.T, pid, tid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
	if err != nil {
		t.Fatal(err)
	}
	var ns int64
	if _, err := fmt.Sscan(string(b), &ns); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ns)
}

func TestMutexIsHeld(t *testing.T) {
	needs.Quiet(t)
	const hold = 3 * time.Millisecond
	s := spawn(t, "mutex", Params{Sleep: hold})
	d := drive(t, s.addr, 12, manyRequests, time.Second)
	between(t, "rate with a lock over a sleep", d.perSecond(), 0.6/hold.Seconds(), 1.01/hold.Seconds())

	const work = 500 * time.Microsecond
	s = spawn(t, "mutex", Params{CPU: work})
	d = drive(t, s.addr, 12, manyRequests, time.Second)
	between(t, "rate with a lock over work", d.perSecond(), 0.4/work.Seconds(), 1.01/work.Seconds())
}

func TestPoolHasItsPlaces(t *testing.T) {
	needs.Quiet(t)
	const n, sleep = 5, 8 * time.Millisecond
	s := spawn(t, "pool", Params{N: n, Sleep: sleep})
	d := drive(t, s.addr, 24, manyRequests, time.Second)
	between(t, "rate", d.perSecond(), 0.7*n/sleep.Seconds(), 1.02*n/sleep.Seconds())
	if s.cpu() > d.elapsed/2 {
		t.Errorf("it used %v of CPU: it should sleep", s.cpu())
	}
}

func TestSleepHoldsNobodyUp(t *testing.T) {
	needs.Quiet(t)
	const sleep = 50 * time.Millisecond
	s := spawn(t, "sleep", Params{Sleep: sleep})
	d := drive(t, s.addr, 40, manyRequests, time.Second)
	between(t, "shortest time, ms", d.least.Seconds()*1e3, 50, 60)
	between(t, "rate", d.perSecond(), 0.7*40/sleep.Seconds(), 40/sleep.Seconds())
}

// TestRandomWaitsForItsLock: one for all threads, or one for each process.
func TestRandomWaitsForItsLock(t *testing.T) {
	needs.Quiet(t)
	perSecond := func(kind string, n int) float64 {
		s := spawn(t, kind, Params{N: n, Sleep: 5 * time.Millisecond})
		return drive(t, s.addr, 16, manyRequests, time.Second).perSecond()
	}
	between(t, "rate of two processes over one lock's", perSecond("random-prefork", 2)/perSecond("random", 1), 1.5, 2.5)
}

// TestHalvesWaitForTheAcknowledgement: 40 ms for each response, once the client's
// kernel has taken the connection for one of questions and answers.
func TestHalvesWaitForTheAcknowledgement(t *testing.T) {
	needs.Quiet(t)
	s := spawn(t, "halves", Params{})
	d := drive(t, s.addr, 8, manyRequests, 2*time.Second)
	mean := 8 * d.elapsed.Seconds() / float64(d.statuses[200])
	between(t, "mean time, ms", mean*1e3, 20, 60)
	if s.cpu() > d.elapsed/2 {
		t.Errorf("it used %v of CPU: it should wait", s.cpu())
	}
}

// TestGrowsCostsMoreWithTime: the second half of the requests costs more than the
// first, as planted, and memory grows with them.
func TestGrowsCostsMoreWithTime(t *testing.T) {
	needs.Quiet(t)
	const each, n = 500 * time.Microsecond, 200
	s := spawn(t, "grows", Params{CPU: each, N: n})
	started := s.cpu() // a busy machine makes starting dear
	first := drive(t, s.addr, 4, n, time.Minute)
	early := s.cpu() - started
	drive(t, s.addr, 4, n, time.Minute)
	late := s.cpu() - started - early
	if first.statuses[200] != n {
		t.Fatalf("%d of %d requests were answered", first.statuses[200], n)
	}
	// 1.5 of the first cost on average, then 2.5; what net/http costs is in both. Without growth it is 1.
	between(t, "CPU of the later requests over the earlier", late.Seconds()/early.Seconds(), 1.15, 2)
}

func TestForwardHasItsConnections(t *testing.T) {
	needs.Quiet(t)
	const n, delay = 3, 10 * time.Millisecond
	var now, most atomic.Int64
	down := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		x := now.Add(1)
		for old := most.Load(); x > old && !most.CompareAndSwap(old, x); old = most.Load() {
		}
		time.Sleep(delay)
		now.Add(-1)
	}))
	defer down.Close()
	to := down.Listener.Addr().String()
	s := spawn(t, "forward", Params{To: to, N: n})
	d := drive(t, s.addr, 16, manyRequests, time.Second/2)
	between(t, "requests at once", float64(most.Load()), n, n)
	between(t, "rate", d.perSecond(), 0.5*n/delay.Seconds(), n/delay.Seconds())

	most.Store(0)
	s = spawn(t, "forward", Params{To: to})
	drive(t, s.addr, 16, manyRequests, time.Second/2)
	between(t, "requests at once without a bound", float64(most.Load()), 14, 16)
}

func TestPreforkGivesAllToOne(t *testing.T) {
	needs.Time(t)
	s := spawn(t, "prefork", Params{N: 3, CPU: 200 * time.Microsecond})
	children := s.children()
	if len(children) != 3 {
		t.Fatalf("children: %v", children)
	}
	before := map[int]int64{}
	for _, pid := range children {
		before[pid], _ = sys.ProcessClockNs(pid)
	}
	d := drive(t, s.addr, 24, 1500, time.Minute)
	if d.statuses[200] != 1500 {
		t.Fatalf("answers: %v, failed %d", d.statuses, d.failed)
	}
	worked := 0
	for _, pid := range children {
		now, err := sys.ProcessClockNs(pid)
		if err != nil {
			t.Fatal(err)
		}
		if now-before[pid] > int64(100*time.Millisecond) {
			worked++
		}
	}
	if worked != 1 {
		t.Errorf("%d of 3 children worked, 1 was planted", worked)
	}
	s.end(syscall.SIGTERM)
	waitGone(t, children)
}

func TestPreforkChildrenEndWithAKilledParent(t *testing.T) {
	s := spawn(t, "prefork", Params{N: 2})
	children := s.children()
	s.end(syscall.SIGKILL)
	waitGone(t, children)
}

// waitGone polls: a process that is not ours tells nobody of its end.
func waitGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for deadline := time.Now().Add(5 * time.Second); !gone(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("child %d is still there", pid)
			}
		}
	}
}

// gone counts a zombie that nobody has reaped yet as ended.
func gone(pid int) bool {
	p, err := sys.ReadPIDStat(pid)
	return err != nil || p.State == 'Z'
}

func TestBacklogOverflows(t *testing.T) {
	needs.Quiet(t)
	const gap = 10 * time.Millisecond
	s := spawn(t, "backlog", Params{N: 2, Sleep: gap})
	before := listenOverflows(t)
	var made atomic.Int64
	var clients sync.WaitGroup
	started := time.Now()
	for range 8 {
		clients.Go(func() {
			for time.Since(started) < time.Second/2 {
				// One that finds the queue full tries again after 1 s: too late.
				if conn, err := net.DialTimeout("tcp", s.addr, time.Second/2); err == nil {
					made.Add(1)
					_ = conn.Close()
				}
			}
		})
	}
	clients.Wait()
	// Accepted in the time, and still in the queue.
	between(t, "connections", float64(made.Load()), 3, time.Since(started).Seconds()/gap.Seconds()+4)
	if listenOverflows(t) == before {
		t.Error("no connection found the queue full")
	}
}

// listenOverflows of this network namespace, from /proc/net/netstat.
func listenOverflows(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/net/netstat")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	names, values := strings.Fields(lines[0]), strings.Fields(lines[1])
	for i, name := range names {
		if name == "ListenOverflows" {
			return values[i]
		}
	}
	t.Fatal("no ListenOverflows in /proc/net/netstat")
	return ""
}

func TestFaultsAreExact(t *testing.T) {
	needs.Time(t)
	s := spawn(t, "faulty", Params{Every: 10, Fault: FaultUnavailable})
	d := drive(t, s.addr, 7, 1000, time.Minute)
	if d.statuses[503] != 100 || d.statuses[200] != 900 || d.failed != 0 {
		t.Errorf("503: %v, failed %d; 100 of 1000 were planted", d.statuses, d.failed)
	}
	s = spawn(t, "faulty", Params{Every: 4, Fault: FaultReset})
	for i := 1; i <= 12; i++ {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if reset := err != nil && strings.Contains(err.Error(), "reset"); reset != (i%4 == 0) {
			t.Errorf("request %d: %v", i, err)
		}
		_ = conn.Close()
	}
	s = spawn(t, "faulty", Params{Every: 2, Fault: FaultSilence})
	client := &http.Client{Timeout: 200 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	for i := 1; i <= 4; i++ {
		res, err := client.Get("http://" + s.addr + "/")
		if err == nil {
			_ = res.Body.Close()
		}
		if silent := os.IsTimeout(err); silent != (i%2 == 0) {
			t.Errorf("request %d: %v", i, err)
		}
	}
}

func TestPauseStopsTheWorld(t *testing.T) {
	needs.Quiet(t)
	const pause, period = 120 * time.Millisecond, 400 * time.Millisecond
	s := spawn(t, "pause", Params{Sleep: pause, Period: period})
	d := drive(t, s.addr, 4, manyRequests, 900*time.Millisecond)
	between(t, "longest time, ms", d.most.Seconds()*1e3, 119, 320)
	between(t, "shortest time, ms", d.least.Seconds()*1e3, 0, 20)
}

func TestNeighbourNeverRests(t *testing.T) {
	needs.Quiet(t)
	s := spawn(t, "neighbour", Params{N: 1})
	before, started := s.cpu(), time.Now()
	for time.Since(started) < 300*time.Millisecond {
		time.Sleep(10 * time.Millisecond)
	}
	between(t, "cores used", (s.cpu()-before).Seconds()/time.Since(started).Seconds(), 0.2, 1.05)
}

func TestLoopFramesItsAnswers(t *testing.T) {
	for _, p := range []Params{{}, {Bytes: 10_000}, {Bytes: 900, Chunks: 400}, {Bytes: 300_000}} {
		s := spawn(t, "loop", p)
		for range 3 {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			const requests = 20
			go func() {
				text := strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", requests)
				for len(text) > 0 { // cut at odd places
					n := min(7, len(text))
					if _, err := io.WriteString(conn, text[:n]); err != nil {
						return
					}
					text = text[n:]
				}
			}()
			in := bufio.NewReader(conn)
			for i := range requests {
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("%+v: response %d: %v", p, i, err)
				}
				n, err := io.Copy(io.Discard, res.Body)
				if err != nil || n != int64(p.Bytes) || res.StatusCode != 200 {
					t.Fatalf("%+v: response %d: %d with %d bytes, %v", p, i, res.StatusCode, n, err)
				}
			}
			_ = conn.Close()
		}
		s.end(syscall.SIGTERM)
	}
}

// TestFarHasItsWindow: no more than a window leaves in each round trip, and the distance is there.
func TestFarHasItsWindow(t *testing.T) {
	const sleep, window, windows = 5 * time.Millisecond, 64 << 10, 8
	s := spawn(t, "far", Params{Sleep: sleep, Bytes: window})
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	for range 2 { // the connection is made with the first
		begun := time.Now()
		r, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Post("http://"+s.addr, "", bytes.NewReader(make([]byte, windows*window)))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if took, least := time.Since(begun), windows*2*sleep; r.StatusCode != 200 || r.ProtoMajor != 2 || took < least {
			t.Errorf("%s %s: %d windows in %v, at least %v", r.Proto, r.Status, windows, took, least)
		}
	}
}
