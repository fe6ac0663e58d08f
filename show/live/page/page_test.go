//go:build linux

package page

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/show/chart"
	"ceiling/show/live"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is how long something may take that takes milliseconds: a busy
// machine runs these tests too.
const patience = time.Minute

func fixture(t testing.TB) (*record.Run, *record.Series) {
	t.Helper()
	r, s, err := record.Open(record.File{Path: "../testdata/run.ndjson"})
	if err != nil {
		t.Fatal(err)
	}
	return r, &s
}

// between is the rows from one time up to another.
func between(s *record.Series, from, to int64) *record.Series {
	var out record.Series
	for _, row := range s.Load {
		if from < row.TNs && row.TNs <= to {
			out.Load = append(out.Load, row)
		}
	}
	for _, row := range s.Observed.All() {
		if at := row.Observed().TNs; from < at && at <= to {
			out.Observed.Add(row)
		}
	}
	return &out
}

const begin = -1 << 62

func serve(t testing.TB, b *live.Board) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0", b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(0); err != nil {
			t.Error(err)
		}
	})
	return s
}

// event is one of a stream.
type event struct{ name, id, data string }

// listener reads a stream as a browser does.
type listener struct {
	t      testing.TB
	body   io.ReadCloser
	lines  *bufio.Reader
	points [][]any
	parts  map[string]string // HTML
	axes   map[string]chart.Plot
	id     string
	ended  bool
	resets int
}

func listen(t testing.TB, s *Server, after string) *listener {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL()+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", answer.Status, answer.Header)
	}
	return &listener{t: t, parts: map[string]string{}, body: answer.Body, lines: bufio.NewReader(answer.Body)}
}

// next reads an event; false at the end of the stream.
func (l *listener) next() (event, bool) {
	l.t.Helper()
	var e event
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		if strings.Contains(line, "\r") {
			l.t.Fatalf("a line ends in the middle of %q", line)
		}
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = strings.TrimPrefix(e.data+"\n"+value, "\n")
		case "":
			if line == "" && e.name != "" {
				return e, true
			}
		}
	}
}

// until takes events until something is so.
func (l *listener) until(what string, is func() bool) {
	l.t.Helper()
	for !is() {
		e, ok := l.next()
		if !ok {
			l.t.Fatalf("the stream ended before %s", what)
		}
		l.take(e)
	}
}

func (l *listener) take(e event) {
	l.t.Helper()
	if e.id != "" {
		l.id = e.id
	}
	var news [][]any
	var err error
	switch e.name {
	case "history":
		l.points = nil
		l.resets++
		fallthrough
	case "more":
		err = json.Unmarshal([]byte(e.data), &news)
		l.points = append(l.points, news...)
	case "axes":
		err = json.Unmarshal([]byte(e.data), &l.axes)
	case "part":
		id, html, found := strings.Cut(e.data, "\n")
		if !found {
			l.t.Fatalf("a part of one line: %q", e.data)
		}
		l.parts[id] = html
	case "end":
		l.ended = true
	default:
		l.t.Fatalf("an event named %q", e.name)
	}
	if err != nil {
		l.t.Fatalf("%s: %v: %.200s", e.name, err, e.data)
	}
}

// shows reports whether a part has all texts.
func (l *listener) shows(id string, texts ...string) bool {
	for _, text := range texts {
		if !strings.Contains(l.parts[id], text) {
			return false
		}
	}
	return true
}

// A reader gets every interval, in its order, early or late, and the end.
func TestEveryIntervalArrives(t *testing.T) {
	r, s := fixture(t)
	b := live.NewBoard()
	server := serve(t, b)
	early := listen(t, server, "")
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(between(s, begin, 1e9))
	early.until("the first second", func() bool { return len(early.points) == len(between(s, begin, 1e9).Load) })
	late := listen(t, server, "")
	late.until("the first second", func() bool { return len(late.points) == len(early.points) })
	b.Rows(between(s, 1e9, 1<<62))
	b.RunEnded(r)
	for _, l := range []*listener{early, late} {
		l.until("the end", func() bool { return l.ended })
		if len(l.points) != len(s.Load) {
			t.Fatalf("%d points of %d rows", len(l.points), len(s.Load))
		}
		for i, p := range l.points {
			row := &s.Load[i]
			if len(p) != 9 || fmt.Sprintf("%.3f", p[0]) != fmt.Sprintf("%.3f", float64(row.TNs)/1e9) {
				t.Fatalf("point %d is %v, the row ends at %d ns", i, p, row.TNs)
			}
		}
		if !l.shows("verdict", string(r.Verdict.Bottleneck)) || l.shows("verdict", "preliminary") || !l.shows("head", `class="ended"`) {
			t.Errorf("the end: %s %s", l.parts["head"], l.parts["verdict"])
		}
		if _, more := l.next(); more {
			t.Error("something comes after the end")
		}
		path := l.parts["stations"]
		if strings.Count(path, "<li class=\"st-") != 6 || strings.Count(path, "bottleneck</a>") != 1 || !strings.Contains(path, `<li class="st-server-edge limits"`) {
			t.Errorf("the path: %s", path)
		}
		if x := l.axes["rate"].X; x.Max != float64(s.Load[len(s.Load)-1].TNs)/1e9 || len(l.axes["response"].Y.Ticks) < 2 {
			t.Errorf("the axes: %+v", l.axes)
		}
		for id, html := range l.parts {
			if strings.Contains(html, " style=") {
				t.Errorf("%s has a style, which the page's policy forbids: %s", id, html)
			}
		}
	}
	// The history that there was nothing of, and that of the run.
	if early.resets > 2 || late.resets != 1 {
		t.Errorf("%d and %d times from the beginning", early.resets, late.resets)
	}
}

// Who was cut off goes on where it was; who was cut off from another server, or
// says nonsense, begins at the beginning.
func TestReconnect(t *testing.T) {
	r, s := fixture(t)
	b := live.NewBoard()
	server := serve(t, b)
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(between(s, begin, 1e9))
	first := listen(t, server, "")
	first.until("the first second", func() bool { return len(first.points) > 5 && first.id != "" })
	first.body.Close()
	b.Rows(between(s, 1e9, 2e9))
	second := listen(t, server, first.id)
	want := len(between(s, begin, 2e9).Load)
	second.until("the rest", func() bool { return len(first.points)+len(second.points) == want })
	if second.resets != 0 {
		t.Error("it was told all again")
	}
	for i, p := range append(first.points, second.points...) {
		if fmt.Sprintf("%.3f", p[0]) != fmt.Sprintf("%.3f", float64(s.Load[i].TNs)/1e9) {
			t.Fatalf("point %d is %v", i, p)
		}
	}
	for _, id := range []string{"nonsense", "otherone-1-5", strings.Replace(second.id, "-", "-99999999999999999999", 1),
		server.hub.nonce + "-1-9999", server.hub.nonce + "-1", "-1--1", second.id + "-1"} {
		l := listen(t, server, id)
		l.until("all of it", func() bool { return len(l.points) == want && l.resets == 1 })
	}
}

// Another run begins anew for everybody, whatever they have seen.
func TestNextRunOfAPlan(t *testing.T) {
	needs.Time(t)
	r, s := fixture(t)
	b := live.NewBoard()
	server := serve(t, b)
	l := listen(t, server, "")
	for n := range 3 {
		b.Began(record.Start{ID: fmt.Sprint("run", n), Spec: r.Spec})
		b.Step(live.Plan{Kind: "sweep", Number: n + 1, All: 3, LeftRuns: 3 - n, LeftS: 9, Doing: "something"})
		b.Rows(between(s, begin, int64(n+1)*5e8))
		want := len(between(s, begin, int64(n+1)*5e8).Load)
		l.until("its points", func() bool { return l.shows("head", fmt.Sprint("run", n)) && len(l.points) == want })
		b.Measured(live.FinishedRun{Measured: record.Measured{Step: record.Step{Number: n + 1}, Outcome: "valid", Bottleneck: "concurrency",
			CompletedPerS: 5}, Doing: "something"})
		l.until("the finished run", func() bool { return strings.Count(l.parts["runs"], "<tr") == n+2 })
		if !l.shows("runs", fmt.Sprintf(`id="run-%d"`, n), "something", "concurrency") {
			t.Error(l.parts["runs"])
		}
	}
	if !l.shows("head", "sweep: step 3 of 3") || l.ended {
		t.Error(l.parts["head"])
	}
	p := &record.Plan{Ending: record.Ending{Ended: record.EndedComplete, Because: recordtest.Say("all there")}}
	p.Experiment.Kind = "sweep"
	b.PlanEnded(p)
	l.until("the end", func() bool { return l.ended })
	if !l.shows("head", "all there") {
		t.Error(l.parts["head"])
	}
}

// A long run is told with fewer points, but from its beginning.
func TestLongRunFits(t *testing.T) {
	b := live.NewBoard()
	server := serve(t, b)
	b.Began(record.Start{})
	for i := range int64(36000) { // an hour
		b.Interval(record.LoadRow{TNs: (i + 1) * 1e8, WidthNs: 1e8, Completed: 10, P50Ns: 1}, nil, 0)
	}
	b.RunEnded(&record.Run{})
	l := listen(t, server, "")
	l.until("the end", func() bool { return l.ended })
	if n := len(l.points); n > live.PointsMost || n < live.PointsMost/2 || l.points[0][0].(float64) > 2 || l.points[n-1][0].(float64) != 3600 {
		t.Errorf("%d points from %v to %v", n, l.points[0], l.points[n-1])
	}
}

// Readers that connect and never read are dropped; the others, and what feeds
// the board, do not notice.
func TestReaderThatNeverReads(t *testing.T) {
	needs.Time(t)
	r, s := fixture(t)
	b := live.NewBoard()
	server := serve(t, b)
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(s)
	var lazy []net.Conn
	for range 5 {
		c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(server.URL(), "http://"), "/"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// As little room as the kernel allows, so that it is full soon.
		if err := c.(*net.TCPConn).SetReadBuffer(2048); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		lazy = append(lazy, c)
	}
	l := listen(t, server, "")
	l.until("the run", func() bool { return len(l.points) == len(s.Load) && server.readers() == 6 })
	at := s.Load[len(s.Load)-1].TNs
	for n := 0; server.readers() > 1; n++ {
		// A reader that reads gets all of this at once; the others' room fills.
		for range 2000 {
			at += 1e6
			b.Interval(record.LoadRow{TNs: at, WidthNs: 1e6, Completed: 1, P50Ns: 123456789, P90Ns: 223456789, P99Ns: 323456789, MaxNs: 423456789},
				nil, 0)
		}
		last := fmt.Sprintf("%.1f", float64(at)/1e9)
		l.until("the last point", func() bool { return fmt.Sprintf("%.1f", l.points[len(l.points)-1][0]) == last || len(l.points) == 0 })
		if n > 2000 {
			t.Fatalf("%d readers are still there", server.readers())
		}
	}
	if b.Lookers() != 1 {
		t.Errorf("%d look", b.Lookers())
	}
	for _, c := range lazy {
		c.Close()
	}
}

// Many may look; one more than many is told so.
func TestManyReaders(t *testing.T) {
	r, s := fixture(t)
	b := live.NewBoard()
	server := serve(t, b)
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(s)
	var all []*listener
	for range readersMost {
		all = append(all, listen(t, server, ""))
	}
	answer, err := http.Get(server.URL() + "events")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more got %s", answer.Status)
	}
	http.DefaultClient.CloseIdleConnections()
	b.RunEnded(r)
	for _, l := range all {
		l.until("the end", func() bool { return l.ended })
		if len(l.points) != len(s.Load) {
			t.Errorf("%d points", len(l.points))
		}
	}
}

// Close lets the readers have the end.
func TestCloseTellsTheEnd(t *testing.T) {
	r, s := fixture(t)
	b := live.NewBoard()
	server, err := Start("127.0.0.1:0", b)
	if err != nil {
		t.Fatal(err)
	}
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(between(s, begin, 1e9))
	l := listen(t, server, "")
	l.until("points", func() bool { return len(l.points) > 0 })
	b.Rows(between(s, 1e9, 1<<62))
	b.RunEnded(r)
	if err := server.Close(patience); err != nil {
		t.Error(err)
	}
	l.until("the end", func() bool { return l.ended })
	if len(l.points) != len(s.Load) || !l.shows("head", `class="ended"`) {
		t.Errorf("%d points, %s", len(l.points), l.parts["head"])
	}
}

// Nobody but this machine's own pages gets anything.
func TestGuard(t *testing.T) {
	server := serve(t, live.NewBoard())
	addr := strings.TrimSuffix(strings.TrimPrefix(server.URL(), "http://"), "/")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, host string
		header             [2]string
		want               int
	}{
		{"GET", "/", addr, [2]string{}, 200},
		{"GET", "/", "localhost:" + port, [2]string{}, 200},
		{"GET", "/", "LOCALHOST", [2]string{}, 200},
		{"GET", "/", "[::1]:" + port, [2]string{}, 200},
		{"GET", "/live.js", addr, [2]string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"GET", "/", addr, [2]string{"Sec-Fetch-Site", "none"}, 200},
		{"GET", "/page.js", addr, [2]string{}, 200},
		{"GET", "/live.css", addr, [2]string{}, 200},
		{"GET", "/page.css", addr, [2]string{}, 200},
		{"GET", "/icon.svg", addr, [2]string{}, 200},
		{"GET", "/", "evil.example:" + port, [2]string{}, 421},
		{"GET", "/events", "evil.example", [2]string{}, 421},
		{"GET", "/", "localhost.evil.example", [2]string{}, 421},
		{"GET", "/", "127.0.0.1.evil.example", [2]string{}, 421},
		{"GET", "/", "192.0.2.1", [2]string{}, 421},
		{"GET", "/events", addr, [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"GET", "/events", addr, [2]string{"Sec-Fetch-Site", "same-site"}, 403},
		{"POST", "/", addr, [2]string{}, 405},
		{"HEAD", "/events", addr, [2]string{}, 405},
		{"OPTIONS", "/events", addr, [2]string{"Origin", "http://evil.example"}, 405},
		{"GET", "/", addr, [2]string{"Content-Length", "5"}, 413},
		{"GET", "/", addr, [2]string{"Transfer-Encoding", "chunked"}, 413},
		{"GET", "/nothing", addr, [2]string{}, 404},
		{"GET", "/%2e%2e/board.go", addr, [2]string{}, 404},
	} {
		got, header := ask(t, addr, c.method, c.path, c.host, c.header)
		if got != c.want {
			t.Errorf("%s %s for %s with %v: %d, want %d", c.method, c.path, c.host, c.header, got, c.want)
		}
		if header.Get("Access-Control-Allow-Origin") != "" || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s %s: header %v", c.method, c.path, header)
		}
	}
}

func ask(t *testing.T, addr, method, path, host string, field [2]string) (int, http.Header) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, path, host)
	if field[0] != "" {
		head += field[0] + ": " + field[1] + "\r\n"
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode, answer.Header
}

func TestAddressInUse(t *testing.T) {
	server := serve(t, live.NewBoard())
	_, err := Start(strings.TrimSuffix(strings.TrimPrefix(server.URL(), "http://"), "/"), live.NewBoard())
	if err == nil || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), "port 0") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// What a server or a record says arrives as text, whatever is in it.
func TestHostileTexts(t *testing.T) {
	const evil = "</script><img src=x onerror=alert(1)>\n\ndata: {}\n\nevent: end\n\x00\u2028\xff"
	r, s := fixture(t)
	r.Verdict.Because, r.Verdict.Bottleneck, r.Verdict.Outcome = recordtest.Says(evil), evil, evil
	r.Verdict.Evidence = []record.Evidence{{Says: recordtest.Say(evil)}}
	b := live.NewBoard()
	server := serve(t, b)
	r.Spec.Targets[0].URL = evil
	b.Began(record.Start{ID: evil, Spec: r.Spec})
	b.Rows(s)
	b.Lost(record.NotMeasured{What: evil, Why: evil})
	b.Measured(live.FinishedRun{Measured: record.Measured{Outcome: evil, StoppedEarly: evil}, Doing: evil})
	b.RunEnded(r)
	l := listen(t, server, "")
	l.until("the end", func() bool { return l.ended })
	for _, id := range []string{"head", "verdict", "reasons", "runs", "missing"} {
		if html := l.parts[id]; strings.Contains(html, "<img") || !strings.Contains(html, "&lt;img src=x onerror=alert(1)&gt;") {
			t.Errorf("%s: %s", id, html)
		}
	}
}

// readers is how many there are.
func (s *Server) readers() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return len(s.hub.readers)
}

func FuzzLastEventID(f *testing.F) {
	h := newHub(live.NewBoard(), "abc")
	f.Add("abc-1-2")
	f.Add("abc-1")
	f.Add("x-1-2")
	f.Fuzz(func(t *testing.T, id string) {
		r := h.join(id)
		defer h.leave(r)
		h.rendered, h.generation = []rendered{{event: []byte("event: part\ndata: head\n\n"), version: 1}}, 1
		if _, _, last := h.message(r, nil); last {
			t.Error("the end of nothing")
		}
	})
}

// TestAgents: each of several agents is there with its name and what it does; a run without has none.
func TestAgents(t *testing.T) {
	b := live.NewBoard()
	b.Began(record.Start{ID: "a", Agents: []record.Agent{{Name: "<b>", Observes: true}}})
	b.Interval(record.LoadRow{TNs: 1e8, WidthNs: 1e8, Completed: 9}, nil, 0)
	b.Agent(record.LoadRow{Host: "load1", TNs: 1e8, WidthNs: 1e8, Completed: 9, Connected: 2, P50Ns: 1e6, P99Ns: 2e6, Busy: -1})
	for _, c := range []struct {
		board *live.Board
		want  []string
	}{
		{b, []string{"&lt;b&gt;: observes", "load1: 90.0 req/s · p50 1.00 ms · p99 2.00 ms · 2 connections"}},
		{live.NewBoard(), nil},
	} {
		h := newHub(c.board, "")
		h.tell()
		l := listener{parts: map[string]string{}}
		for _, r := range h.rendered {
			id, html, _ := strings.Cut(strings.TrimPrefix(string(r.event), "event: part\ndata: "), "\n")
			l.parts[id] = html
		}
		if !l.shows("agents", c.want...) || strings.Count(l.parts["agents"], "<li>") != len(c.want) {
			t.Errorf("agents %s, want %v", l.parts["agents"], c.want)
		}
	}
}
