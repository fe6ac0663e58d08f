//go:build linux

package load

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/unit"
)

// childEnv makes this binary a server for the tests that measure the engine's
// own process; see child.
const childEnv = "LOAD_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		serveAsChild()
		return
	}
	// Runs go on side by side here, and each needs processors for its workers: see
	// Run. Most wait for something most of the time.
	runtime.GOMAXPROCS(32)
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	before := descriptors()
	code := m.Run()
	if code == 0 {
		if err := leak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	// The runtime's own poller and a few files of package os stay open.
	if after := settled(before + 4); code == 0 && after > before+4 {
		fmt.Fprintf(os.Stderr, "%d descriptors before the tests, %d after\n", before, after)
		code = 1
	}
	os.Exit(code)
}

func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	return len(list)
}

// settled waits for the descriptors to be no more than want: package net closes
// its own in goroutines.
func settled(want int) (now int) {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		if now = descriptors(); now <= want || time.Now().After(deadline) {
			return now
		}
	}
}

// each runs body under every engine.
func each(t *testing.T, body func(t *testing.T, engine string)) {
	t.Helper()
	under(t, body, ring.Uring, ring.Epoll, ring.Portable)
}

func under(t *testing.T, body func(t *testing.T, engine string), engines ...string) {
	t.Helper()
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			if engine == ring.Uring {
				needs.LockedMemory(t)
			}
			body(t, engine)
		})
	}
}

// eachAtOnce is each for bodies that measure no time.
func eachAtOnce(t *testing.T, body func(t *testing.T, engine string)) {
	t.Helper()
	t.Parallel()
	each(t, func(t *testing.T, engine string) {
		t.Parallel()
		body(t, engine)
	})
}

// serve starts a server for one test.
func serve(t testing.TB, script func(int) faultserver.Script) *faultserver.Server {
	t.Helper()
	return serveOn(t, "tcp4", "127.0.0.1:0", script)
}

func serveOn(t testing.TB, network, address string, script func(int) faultserver.Script) *faultserver.Server {
	t.Helper()
	s, err := faultserver.Listen(network, address, script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func addressOf(t testing.TB, address string) Destination {
	t.Helper()
	if strings.HasPrefix(address, "/") {
		a, err := ring.UnixAddr(address)
		if err != nil {
			t.Fatal(err)
		}
		return To(a)
	}
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return To(ring.TCPAddr(a))
}

const getBytes = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func get() []Request { return []Request{{Bytes: []byte(getBytes), Weight: 1}} }

func perS(n uint64) unit.Rate { return unit.Rate{From: perSecond(n), To: perSecond(n)} }

// config is a small closed loop of n requests against s.
func config(t testing.TB, s *faultserver.Server, engine string, requests uint64) Config {
	t.Helper()
	return Config{
		To: addressOf(t, s.Address()), Mix: get(), Connections: 4, Threads: 2, Pipelining: 1,
		Requests: requests, Timeout: 10 * time.Second, Engine: engine, Seed: 1,
	}
}

// watcher is an Observer that keeps what it is told.
type watcher struct {
	t           testing.TB
	established int
	asked       int
	openedAt    time.Time
	closed      bool
	rows        []row
	sum         *Tally
	onOpen      func()
	onRow       func(*Tally)
}

type row struct {
	start, end   int64
	warmup, late bool
	completed    uint64
	inFlight     uint64
	connected    int
	busy         float64
}

func (w *watcher) Connected(established, asked int, _ time.Time) {
	w.established, w.asked = established, asked
}

func (w *watcher) Window(open bool, at time.Time) {
	if !open {
		w.closed = true
		return
	}
	w.openedAt = at
	if w.onOpen != nil {
		w.onOpen()
	}
}

func (w *watcher) Interval(t *Tally, late bool) {
	w.rows = append(w.rows, row{t.StartNs, t.EndNs, t.Warmup, late, t.Completed, t.InFlight, t.Connected, t.Busy})
	if !t.Warmup {
		w.sum.count(t)
	}
	if w.onRow != nil {
		w.onRow(t)
	}
}

// start does a run with ctx and holds its books against each other. It is not for make test: even one
// that ends by a number of requests has timeouts, and threads that a busy machine lets wait.
func start(ctx context.Context, t testing.TB, c Config, w *watcher) *Result {
	t.Helper()
	if testing.Short() && !needs.Raced() {
		t.Fatal("a test that runs the engine begins with needs.Engine(t)")
	}
	w.t, w.sum, w.rows = t, newTally(len(c.Mix)), make([]row, 0, 1000)
	r, err := Run(ctx, c, w)
	if err != nil {
		t.Fatal(err)
	}
	balanced(t, &c, r, w)
	return r
}

func runs(t testing.TB, c Config) *Result {
	t.Helper()
	return start(context.Background(), t, c, &watcher{})
}

// balanced checks what must hold after every run, whatever the server did.
func balanced(t testing.TB, c *Config, r *Result, w *watcher) {
	t.Helper()
	n := &r.Total
	if n.Sent+r.Carried != n.Completed+n.Failed+n.InFlight {
		t.Errorf("sent %d + carried %d ≠ completed %d + failed %d + in flight %d", n.Sent, r.Carried, n.Completed, n.Failed, n.InFlight)
	}
	statuses, causes := uint64(0), uint64(0)
	for _, k := range n.Statuses {
		statuses += k
	}
	for f, k := range n.Faults {
		if f.OfRequest() {
			causes += k
		}
	}
	if statuses != n.Completed || causes != n.Failed {
		t.Errorf("%d completed and %d failed, but %d statuses and %d causes: %v", n.Completed, n.Failed, statuses, causes, n.Faults)
	}
	dated := n.Response.Count()
	if dated != n.Service.Count() || dated > n.Completed+n.Failed || dated+r.Carried < n.Completed+n.Failed {
		t.Errorf("%d response and %d service times of %d completed and %d failed", dated, n.Service.Count(), n.Completed, n.Failed)
	}
	if c.Rate.IsZero() && (dated != n.Completed+n.Failed || n.Lag.Count() != n.Sent) {
		t.Errorf("closed loop: %d response times of %d completed and %d failed; %d lags of %d sent", dated, n.Completed, n.Failed, n.Lag.Count(),
			n.Sent)
	}
	if hour := int64(time.Hour); n.Response.Max() > hour || n.Service.Max() > hour || n.Lag.Max() > hour {
		t.Errorf("times without meaning: response %d, service %d, lag %d", n.Response.Max(), n.Service.Max(), n.Lag.Max())
	}
	balancedSlots(t, c, r)
	balancedRows(t, r, w)
}

// balancedSlots is Little's law without a margin: the slots of a closed loop are
// never without a request, so their time is the sum of the response times and
// of what is begun at either edge of the window.
func balancedSlots(t testing.TB, c *Config, r *Result) {
	t.Helper()
	if !c.Rate.IsZero() {
		if r.Edges != nil {
			t.Errorf("an open loop has edges: %+v", *r.Edges)
		}
		return
	}
	if c.Requests > 0 || r.WindowNs == 0 || r.Interrupted {
		return // a slot is idle once no request is left for it
	}
	slots := int64(c.Share.Part(uint64(c.Connections))) * int64(c.Pipelining)
	if c.Share == (Share{}) {
		slots = int64(c.Connections * c.Pipelining)
	}
	// Requests that came due after the window had closed (of a worker that began so late) have not
	// waited in it, and count as negative at its edge.
	if r.Waiting != nil && r.Waiting.Response.Count() == r.Total.InFlight && int64(r.Waiting.Response.Sum()) != r.Edges.InFlightNs {
		t.Errorf("the requests without a response had waited for %d ns, at the edge %d", r.Waiting.Response.Sum(), r.Edges.InFlightNs)
	}
	used := int64(r.Total.Response.Sum()) + r.Edges.InFlightNs - r.Edges.CarriedNs
	if used != slots*r.WindowNs {
		t.Errorf("%d slots of %d ns, but the requests took %d ns: %.4f of it", slots, r.WindowNs, used, float64(used)/float64(slots*r.WindowNs))
	}
}

// balancedRows: rows follow each other without gap or overlap, are of the
// warm-up first and then of the window, and add up to the total.
func balancedRows(t testing.TB, r *Result, w *watcher) {
	t.Helper()
	widths := int64(0)
	for i, row := range w.rows {
		if row.end <= row.start || i > 0 && row.start != w.rows[i-1].end || i > 0 && row.warmup && !w.rows[i-1].warmup {
			t.Errorf("row %d is %+v after %+v", i, row, w.rows[max(i-1, 0)])
		}
		if row.warmup != (row.start < 0) || row.warmup && row.end > 0 {
			t.Errorf("row %d from %d to %d, warm-up %v", i, row.start, row.end, row.warmup)
		}
		if !row.warmup {
			widths += row.end - row.start
		}
	}
	if widths != r.WindowNs {
		t.Errorf("the rows are %d ns wide together, the window %d", widths, r.WindowNs)
	}
	a, b := w.sum, &r.Total
	if r.WindowNs > 0 && (a.Sent != b.Sent || a.Completed != b.Completed || a.Failed != b.Failed || a.Read != b.Read ||
		a.Statuses != b.Statuses || a.Response.Count() != b.Response.Count() || a.Response.Sum() != b.Response.Sum() ||
		a.Lag.Sum() != b.Lag.Sum()) {
		t.Errorf("the rows do not add up to the total: sent %d of %d, completed %d of %d, failed %d of %d", a.Sent, b.Sent, a.Completed,
			b.Completed, a.Failed, b.Failed)
	}
	byWorker := uint64(0)
	for _, k := range r.Workers {
		byWorker += k.Completed
	}
	if byWorker != b.Completed {
		t.Errorf("the workers completed %d, all together %d", byWorker, b.Completed)
	}
}

// clean checks that n requests were completed and nothing went wrong.
func clean(t testing.TB, r *Result, n uint64) {
	t.Helper()
	if r.Total.Completed != n || r.Total.Failed != 0 || len(r.Total.Faults) != 0 || len(r.Setup) != 0 {
		t.Errorf("completed %d, want %d; failed %d; faults %v, before the window %v", r.Total.Completed, n, r.Total.Failed, r.Total.Faults,
			r.Setup)
	}
}

func unixPath(t testing.TB) string { return filepath.Join(t.TempDir(), "s") }
