package proxy

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Snapshot is what a proxy has counted, and its current state, at one moment. Snapshots of
// several processes can be added.
type Snapshot struct {
	Counters map[string]uint64 `json:"counters"`
	// Statuses counts responses by class: "2xx".
	Statuses map[string]uint64 `json:"statuses"`
	// Latency counts requests that took at most LatencyBounds[i] seconds, from the first byte of
	// the request to the last of the response; the last element counts all.
	Latency []uint64 `json:"latency"`
	// LatencySeconds is the sum of their durations.
	LatencySeconds float64 `json:"latency_seconds"`
	// Clients counts open client connections.
	Clients   int              `json:"clients"`
	Loops     int              `json:"loops"`
	Upstreams []UpstreamStatus `json:"upstreams"`
	// Sites are the served directories.
	Sites []SiteStatus `json:"sites,omitempty"`
	// Secure covers the clients with TLS; nil if there is none.
	Secure *Secure `json:"tls,omitempty"`
}

// SiteStatus describes a served directory.
type SiteStatus struct {
	Directory string `json:"directory"`
	State     string `json:"state"` // ok, missing
	// Problem is why it cannot be served.
	Problem string `json:"problem,omitempty"`
}

// UpstreamStatus describes one upstream.
type UpstreamStatus struct {
	Address   string `json:"address"`
	State     string `json:"state"` // ok, ill, ejected, on trial, unresolved, starting
	Open      int    `json:"open"`  // connections
	Idle      int    `json:"idle"`
	Busy      int    `json:"busy"` // requests
	Queued    int    `json:"queued"`
	Ejections uint64 `json:"ejections"`
	// Problem is why its name did not resolve last.
	Problem string `json:"problem,omitempty"`
	// Checks of its health, including FailedChecks.
	Checks       uint64 `json:"checks"`
	FailedChecks uint64 `json:"failed_checks"`
}

// upstreamStates returns the values of UpstreamStatus.State.
func upstreamStates() []string {
	return []string{"ok", "ill", "ejected", "on trial", "unresolved", "starting"}
}

// LatencyBounds returns the bounds of Snapshot.Latency in seconds.
func LatencyBounds() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// Snapshot collects the state of every loop.
func (p *Proxy) Snapshot() (*Snapshot, error) {
	type part struct {
		counts    *counters
		clients   int
		upstreams []UpstreamStatus
		sessions  sessions
		secured   secured
		site      *site
	}
	var all sessions
	var tls secured
	var served *site
	total := new(counters)
	s := &Snapshot{Counters: map[string]uint64{}, Statuses: map[string]uint64{}, Loops: len(p.loops)}
	err := ask(p, func(l *loop) part {
		counts := l.counts
		return part{&counts, len(l.clients), l.upstreams(), l.admission.sessions, l.admission.secured, l.site}
	}, func(one part) {
		total.add(one.counts)
		s.Clients += one.clients
		all.add(one.sessions)
		tls.add(&one.secured)
		s.addUpstreams(one.upstreams, false)
		served = one.site
	})
	if err != nil {
		return nil, err
	}
	s.Sites = served.directories()
	for _, f := range total.fields() {
		s.Counters[f.name] = *f.at
	}
	for i, n := range total.statuses {
		s.Statuses[fmt.Sprintf("%dxx", i)] = n
	}
	for _, bound := range LatencyBounds() {
		s.Latency = append(s.Latency, total.latency.CountAtMost(int64(bound*1e9)))
	}
	s.Latency = append(s.Latency, total.latency.Count())
	s.LatencySeconds = float64(total.latency.Sum()) / 1e9
	if served.certificates != nil {
		s.Secure = tls.report(&all)
	}
	return s, nil
}

// Traces returns the last requests of all loops, newest first.
func (p *Proxy) Traces() ([]Trace, error) {
	var all []Trace
	err := ask(p, func(l *loop) []Trace {
		var list []Trace
		for _, t := range l.traces.list {
			list = append(list, Trace{p.began.Add(time.Duration(t.at)).UnixNano(), hideSecrets(t.line)})
		}
		return list
	}, func(list []Trace) { all = append(all, list...) })
	NewestFirst(all)
	return all, err
}

// directories describes the served directories as they are now, each once.
func (s *site) directories() (list []SiteStatus) {
	for _, f := range s.fileSites {
		if slices.ContainsFunc(list, func(o SiteStatus) bool { return o.Directory == f.Path() }) {
			continue
		}
		one := SiteStatus{Directory: f.Path(), State: "ok"}
		if err := f.Problem(); err != nil {
			one.State, one.Problem = "missing", err.Error()
		}
		list = append(list, one)
	}
	return list
}

// upstreams describes the loop's pools, and the upstreams it has not used yet.
func (l *loop) upstreams() []UpstreamStatus {
	var list []UpstreamStatus
	described := map[*upstream]bool{}
	for _, p := range l.pools {
		if p == nil || p.upstream.gone.Load() && p.open == 0 {
			continue
		}
		one := p.upstream.status(l.now)
		one.Open, one.Idle, one.Busy, one.Queued = p.open, len(p.idle)+p.idleSessions(nil), p.busy, len(p.queue)
		list = append(list, one)
		described[p.upstream] = true
	}
	for _, u := range l.site.upstreams {
		if !described[u] {
			list = append(list, u.status(l.now))
		}
	}
	return list
}

// status returns what the loops share.
func (u *upstream) status(now int64) UpstreamStatus {
	problem := ""
	if text := u.naming.problem.why.Load(); text != nil {
		problem = *text
	}
	return UpstreamStatus{Address: u.key, Problem: problem, State: u.state(now), Ejections: u.ejects.Load(), Checks: u.checked.Load(),
		FailedChecks: u.unwell.Load()}
}

// addUpstreams adds those of another loop, or of another process: what the loops of a process
// share counts once.
func (s *Snapshot) addUpstreams(list []UpstreamStatus, process bool) {
	shared := func(a, b uint64) uint64 {
		if process {
			return a + b
		}
		return max(a, b)
	}
	for _, u := range list {
		i := slices.IndexFunc(s.Upstreams, func(o UpstreamStatus) bool { return o.Address == u.Address })
		if i < 0 {
			s.Upstreams = append(s.Upstreams, u)
			continue
		}
		o := &s.Upstreams[i]
		o.Open, o.Idle, o.Busy, o.Queued = o.Open+u.Open, o.Idle+u.Idle, o.Busy+u.Busy, o.Queued+u.Queued
		o.Ejections, o.Checks, o.FailedChecks = shared(o.Ejections, u.Ejections), shared(o.Checks, u.Checks),
			shared(o.FailedChecks, u.FailedChecks)
		if u.State != "ok" {
			o.State = u.State
		}
	}
	slices.SortFunc(s.Upstreams, func(a, b UpstreamStatus) int { return cmp.Compare(a.Address, b.Address) })
}

// Add adds another process's snapshot.
func (s *Snapshot) Add(o *Snapshot) {
	for name, n := range o.Counters {
		s.Counters[name] += n
	}
	for name, n := range o.Statuses {
		s.Statuses[name] += n
	}
	for i := range min(len(s.Latency), len(o.Latency)) {
		s.Latency[i] += o.Latency[i]
	}
	s.LatencySeconds += o.LatencySeconds
	s.Clients += o.Clients
	s.Loops += o.Loops
	s.addUpstreams(o.Upstreams, true)
	switch {
	case o.Secure == nil:
	case s.Secure == nil:
		s.Secure = o.Secure
	default:
		s.Secure.add(o.Secure)
	}
}

// WritePrometheus writes the text format, version 0.0.4.
func (s *Snapshot) WritePrometheus(w io.Writer) error {
	const prefix = "ceiling_proxy_"
	var b []byte
	for _, f := range new(counters).fields() {
		b = fmt.Appendf(b, "# HELP %s%s %s\n# TYPE %s%s counter\n%s%s %d\n", prefix, f.name, f.help, prefix, f.name, prefix, f.name,
			s.Counters[f.name])
	}
	b = fmt.Appendf(b, "# HELP %sresponses_total answers by status\n# TYPE %sresponses_total counter\n", prefix, prefix)
	for _, class := range slices.Sorted(maps.Keys(s.Statuses)) {
		b = fmt.Appendf(b, "%sresponses_total{status=%q} %d\n", prefix, class, s.Statuses[class])
	}
	b = fmt.Appendf(b, "# HELP %sclients connections of clients that are open\n# TYPE %sclients gauge\n%sclients %d\n", prefix, prefix, prefix,
		s.Clients)
	b = fmt.Appendf(b, "# HELP %srequest_seconds first byte of the request to the last of the answer\n# TYPE %srequest_seconds histogram\n",
		prefix, prefix)
	for i, bound := range LatencyBounds() {
		b = fmt.Appendf(b, "%srequest_seconds_bucket{le=\"%g\"} %d\n", prefix, bound, s.Latency[i])
	}
	all := s.Latency[len(s.Latency)-1]
	b = fmt.Appendf(b, "%[1]srequest_seconds_bucket{le=\"+Inf\"} %[2]d\n%[1]srequest_seconds_sum %[3]g\n%[1]srequest_seconds_count %[2]d\n",
		prefix, all, s.LatencySeconds)
	b = s.appendUpstreams(b, prefix)
	if s.Secure != nil {
		b = s.Secure.appendPrometheus(b, prefix)
	}
	_, err := w.Write(b)
	return err
}

func (s *Snapshot) appendUpstreams(b []byte, prefix string) []byte {
	each := func(kind, name, help string, of func(*UpstreamStatus) uint64) {
		b = fmt.Appendf(b, "# HELP %[1]s%[2]s %[3]s\n# TYPE %[1]s%[2]s %[4]s\n", prefix, name, help, kind)
		for i := range s.Upstreams {
			b = fmt.Appendf(b, "%s%s{upstream=%q} %d\n", prefix, name, s.Upstreams[i].Address, of(&s.Upstreams[i]))
		}
	}
	each("gauge", "upstream_open", "connections to the upstream", func(u *UpstreamStatus) uint64 { return uint64(u.Open) })
	each("gauge", "upstream_idle", "of these, idle ones", func(u *UpstreamStatus) uint64 { return uint64(u.Idle) })
	each("gauge", "upstream_busy", "requests that it has", func(u *UpstreamStatus) uint64 { return uint64(u.Busy) })
	each("gauge", "upstream_queued", "requests that wait for a connection", func(u *UpstreamStatus) uint64 { return uint64(u.Queued) })
	each("counter", "upstream_ejections_total", "times that it was left out because it failed",
		func(u *UpstreamStatus) uint64 { return u.Ejections })
	each("counter", "upstream_health_checks_total", "health checks", func(u *UpstreamStatus) uint64 { return u.Checks })
	each("counter", "upstream_health_checks_failed_total", "of these, failed ones", func(u *UpstreamStatus) uint64 { return u.FailedChecks })
	each("gauge", "upstream_usable", "whether requests are sent to it", func(u *UpstreamStatus) uint64 {
		if u.State == "ok" {
			return 1
		}
		return 0
	})
	b = fmt.Appendf(b, "# HELP %[1]supstream_state 1 for the state that it is in\n# TYPE %[1]supstream_state gauge\n", prefix)
	for _, u := range s.Upstreams {
		for _, state := range upstreamStates() {
			is := 0
			if u.State == state {
				is = 1
			}
			b = fmt.Appendf(b, "%supstream_state{upstream=%q,state=%q} %d\n", prefix, u.Address, state, is)
		}
	}
	return b
}
