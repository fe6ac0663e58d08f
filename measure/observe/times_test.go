//go:build linux

package observe

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/record"
)

// Where a server keeps every request for 10 ms, the row of a burst says so, on
// the run's clock and in a request's order.
func TestTimesRows(t *testing.T) {
	needs.Quiet(t)
	const planted = 10 * time.Millisecond
	l, addr := listen(t, "tcp4", "127.0.0.1:0")
	var wait sync.WaitGroup
	done := make(chan struct{})
	for _, p := range connect(t, l, 8) {
		wait.Go(func() { answer(p.server, planted) })
		wait.Go(func() { ask(t, p.client, done) })
	}
	o := newObserver(t, Config{TargetAddr: addr, GeneratorPID: os.Getpid()})
	got := &collect{t: t}
	began := time.Now()
	clock := func() int64 { return int64(time.Since(began)) }
	for len(rowsOf[record.TimesRow](got)) < 4 && clock() < 10e9 {
		o.Sample(clock(), got.emit)
		time.Sleep(time.Duration(max(o.Next()-clock(), 0)))
	}
	close(done)
	wait.Wait()
	rows := rowsOf[record.TimesRow](got)
	if len(rows) < 4 {
		t.Fatalf("%d rows; not measured: %+v", len(rows), o.NotMeasured())
	}
	inside, all, lastNs, most := int64(0), int64(0), int64(0), 0
	for _, row := range rows {
		if row.TNs-row.WidthNs < lastNs || row.TNs > clock() || row.Connections > 8 || row.Dropped != 0 || len(row.Places) != 6 {
			t.Errorf("row %+v", row)
		}
		lastNs, most = row.TNs, max(most, row.Connections)
		for _, place := range row.Places {
			if all += place.Ns; place.Place == record.PlaceInServer {
				inside += place.Ns
			}
		}
	}
	if most != 8 {
		t.Errorf("%d connections in a burst, of 8", most)
	}
	if share := float64(inside) / float64(all); share < 0.5 {
		t.Errorf("%.0f%% of the time in the server, which kept every request for %v", 100*share, planted)
	}
}

// answer keeps every message of 10 bytes for a while.
func answer(c io.ReadWriter, long time.Duration) {
	b := make([]byte, 10)
	for {
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		time.Sleep(long)
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// ask has one message under way until done.
func ask(t *testing.T, c io.ReadWriteCloser, done <-chan struct{}) {
	b := make([]byte, 10)
	for {
		select {
		case <-done:
			c.Close()
			return
		default:
		}
		if _, err := c.Write(b); err != nil {
			t.Error(err)
			return
		}
		if _, err := io.ReadFull(c, b); err != nil {
			t.Error(err)
			return
		}
	}
}

// What cannot be followed is named with its reason, and nothing is loaded.
func TestTimesNotMeasured(t *testing.T) {
	_, addr := listen(t, "tcp4", "127.0.0.1:0")
	check := func(c Config, why string) {
		t.Helper()
		for _, n := range newObserver(t, c).NotMeasured() {
			if n.What == "kernel events" && strings.Contains(n.Why, why) {
				return
			}
		}
		t.Errorf("%+v: no word that %s", c, why)
	}
	check(Config{TargetAddr: addr}, "the generator is on another host")
	check(Config{GeneratorPID: os.Getpid()}, "not a TCP address")
}
