//go:build !race

// The race detector rightly objects to reading memory that others write.

package load

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"ceiling/internal/http1"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
)

// lineBytes is a cache line; x86 also fetches its neighbour, but one written line is what two CPUs
// pass back and forth.
const lineBytes = 64

// reached is what an object reaches, in cache lines. Channels and the file of the run delay are left
// out, because a worker uses them once an interval, and time zones, because it never does.
type reached struct {
	lines map[uintptr]string // by what
	seen  map[span]bool
}

type span struct {
	at   unsafe.Pointer
	kind reflect.Type
	len  int
}

func reach(v any) reached {
	m := reached{map[uintptr]string{}, map[span]bool{}}
	m.follow(reflect.ValueOf(v), "")
	return m
}

func (m reached) add(at unsafe.Pointer, size uintptr, name string) {
	if size == 0 {
		return
	}
	for line := uintptr(at) / lineBytes; line <= (uintptr(at)+size-1)/lineBytes; line++ {
		m.lines[line] += " " + name
	}
}

// follow adds what a value points to, but not the value itself.
func (m reached) follow(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		s := span{v.UnsafePointer(), v.Type(), 1}
		if v.IsNil() || m.seen[s] || v.Type() == reflect.TypeFor[*sys.RunDelay]() || v.Type() == reflect.TypeFor[*time.Location]() {
			return
		}
		m.seen[s] = true
		m.add(s.at, v.Type().Elem().Size(), name)
		m.follow(v.Elem(), name)
	case reflect.Slice:
		s := span{v.UnsafePointer(), v.Type(), v.Len()}
		if v.Len() == 0 || m.seen[s] {
			return
		}
		m.seen[s] = true
		m.add(s.at, v.Type().Elem().Size()*uintptr(v.Len()), name)
		for i := range v.Len() {
			m.follow(v.Index(i), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			m.follow(v.Field(i), name+"."+v.Type().Field(i).Name)
		}
	case reflect.Array:
		for i := range v.Len() {
			m.follow(v.Index(i), name)
		}
	case reflect.Interface:
		m.follow(v.Elem(), name)
	}
}

// common returns the lines that both reach.
func (m reached) common(other reached) (list []uintptr) {
	for line := range m.lines {
		if other.lines[line] != "" {
			list = append(list, line)
		}
	}
	return list
}

// contents copies lines as they are now.
func contents(lines []uintptr) (all [][]byte) {
	var here byte
	for _, line := range lines {
		copied := make([]byte, lineBytes)
		for i := range copied {
			copied[i] = *(*byte)(unsafe.Add(unsafe.Pointer(&here), line*lineBytes+uintptr(i)-uintptr(unsafe.Pointer(&here))))
		}
		all = append(all, copied)
	}
	return all
}

// written returns which lines changed.
func written(before, after [][]byte) (list []int) {
	for i := range before {
		if !bytes.Equal(before[i], after[i]) {
			list = append(list, i)
		}
	}
	return list
}

func TestWrittenLinesAreSeen(t *testing.T) {
	type counter struct{ n int }
	type one struct{ own, both *counter }
	both := new(counter)
	a, b := &one{new(counter), both}, &one{new(counter), both}
	lines := reach(a).common(reach(b))
	before := contents(lines)
	if len(written(before, contents(lines))) != 0 {
		t.Error("lines changed though nobody wrote")
	}
	a.both.n++
	if len(written(before, contents(lines))) != 1 {
		t.Error("a shared counter is not seen")
	}
}

// TestWorkersWriteNoSharedLine: while two workers load a server, no cache line that both can reach
// changes, so that a request costs the same however many workers there are.
func TestWorkersWriteNoSharedLine(t *testing.T) {
	needs.Engine(t)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	request, err := http1.AppendRequest(nil, "GET", "/", at.String(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		To: To(ring.TCPAddr(at)), Mix: make([]Request, 1, 64), Connections: 64, Threads: 2, Pipelining: 1,
		Duration: 500 * time.Millisecond, Timeout: 10 * time.Second, Interval: DefaultInterval, Drain: time.Second,
	}
	c.Mix[0] = Request{Bytes: wholeLines(request), Weight: 1} // in memory of its own
	script, err := newScript(c.Mix, c.Pipelining, c.Seed)
	if err != nil {
		t.Fatal(err)
	}
	each := make(chan reached, c.Threads)
	var a, b reached
	var lines []uintptr
	looks := 0
	watch := &onInterval{}
	r := &coordinator{
		shared:   &shared{Config: c, script: script, own: c.Connections, base: time.Now(), schedule: newSchedule(&c)},
		observer: watch, ctx: t.Context(),
	}
	r.shared.Expect.Unexpected = errorStatuses()
	var before [][]byte
	watch.connected = func() {
		a, b = <-each, <-each
		lines = a.common(b)
	}
	watch.interval = func() {
		now := contents(lines)
		if before != nil {
			for _, i := range written(before, now) {
				t.Errorf("a worker wrote a line that both reach: one as%s, the other as%s", a.lines[lines[i]], b.lines[lines[i]])
			}
			looks++
		}
		before = now
	}
	result, err := r.runWith(func(id, first, count int, free chan *Tally) {
		release := sys.HoldThread()
		defer release()
		w, err := newWorker(r.shared, id, first, count, free, r.out)
		if err != nil {
			t.Error(err)
			r.out <- delivery{worker: id, over: true}
			r.out <- delivery{worker: id, last: true, err: err}
			return
		}
		each <- reach(w) // before its memory changes
		err = w.loop()
		w.end()
		r.out <- delivery{worker: id, over: true, tally: w.tally, report: w.report()}
		r.out <- delivery{worker: id, last: true, err: errors.Join(err, w.shut())}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) == 0 || looks < 2 || result.Total.Completed == 0 {
		t.Fatalf("%d lines in common, %d looks, %d requests", len(lines), looks, result.Total.Completed)
	}
}

// onInterval is an observer that looks once the workers are ready, and after every interval.
type onInterval struct{ connected, interval func() }

func (o *onInterval) Connected(_, _ int, window time.Time) {
	if !window.IsZero() {
		o.connected()
	}
}
func (o *onInterval) Window(bool, time.Time) {}
func (o *onInterval) Interval(*Tally, bool)  { o.interval() }
