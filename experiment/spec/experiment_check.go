package spec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ceiling/internal/unit"
)

// Limits of an Experiment.
const (
	// RunsMax is the maximum number of listed runs: at 10 s each they take close to three hours;
	// a longer list is a mistake.
	RunsMax = 1000
	// RepeatsMax limits the runs of one condition.
	RepeatsMax = 100
	// serversMax and mixesMax limit tables to a readable size.
	serversMax = 64
	mixesMax   = 64
)

// placeholder is the address of a server that is not started yet, so that everything else can be
// validated.
const placeholder = "http://127.0.0.1:1"

// Complete fills in defaults, so that the saved experiment is complete. It uses seed if none is
// set.
func (e *Experiment) Complete(seed uint64) {
	l := &e.Load
	if e.Seed == 0 {
		e.Seed = seed
	}
	if e.Repeats == 0 {
		e.Repeats = e.kind().repeats
	}
	if len(l.Connections) == 0 && !e.Searches() { // a search sizes them by its rates
		l.Connections = []Count{64}
	}
	if len(l.Pipelining) == 0 {
		l.Pipelining = []Count{1}
	}
	if l.Duration == 0 {
		l.Duration = Time(e.kind().runTime)
	}
	if l.Warmup == nil {
		l.Warmup = new(min(Time(time.Second), l.Duration/10))
	}
	if l.Arrivals == "" && e.open() {
		l.Arrivals = Constant
	}
	if l.Engine == "" {
		l.Engine = EngineAuto
	}
	for i := range e.Requests {
		e.Requests[i].complete(l)
	}
}

func (m *Mix) complete(l *Load) {
	all := m.Mix
	if len(all) == 0 {
		m.MixRequest.complete(l)
	}
	for i := range all {
		all[i].complete(l)
	}
}

func (r *MixRequest) complete(l *Load) {
	r.Method = strings.ToUpper(r.Method)
	if r.Method == "" {
		r.Method = "GET"
		hasBody := r.Body != "" || len(r.Content) > 0 || r.BodyHidden != nil
		if hasBody && l.Kind != Messages {
			r.Method = "POST"
		}
	}
	if r.Weight == 0 {
		r.Weight = 1
	}
}

// open reports whether the runs are open loops: those of a search always are.
func (e *Experiment) open() bool {
	return len(e.Load.Rate) > 0 || e.Searches() || slices.ContainsFunc(e.Factorial.Factors, func(f Factor) bool {
		return slices.ContainsFunc(f.Levels, func(l Level) bool { return len(l.Rate) > 0 })
	})
}

// Check rejects what can be rejected before anything starts. The error is one line.
func (e *Experiment) Check() error {
	checks := []func() error{e.checkKind, e.checkParts, e.checkServers, e.checkLink, e.checkDial, e.checkMixes, e.checkLoad, e.checkBounds}
	if parts := e.kind().parts; parts != nil {
		checks = append(checks, func() error { return parts(e) })
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	if err := e.Expect.check(); err != nil {
		return err
	}
	return e.SLO.check()
}

func (e *Experiment) checkServers() error {
	if len(e.Servers) == 0 || len(e.Servers) > serversMax {
		return fmt.Errorf("servers: %d are given, from 1 to %d can be; give one as url: http://127.0.0.1:8080 or serve: COMMAND", len(e.Servers),
			serversMax)
	}
	for i := range e.Servers {
		s := &e.Servers[i]
		switch {
		case (s.URL == "") == (s.Serve == ""):
			return fmt.Errorf("server %d: give either the url of one that runs or the command that serves", i+1)
		case s.URL != "" && len(s.Env) > 0:
			return fmt.Errorf("server %d: env is for a command that is started; %s runs already", i+1, s.URL)
		case s.URL != "" && s.Dir != "":
			return fmt.Errorf("server %d: dir is for a command that is started; %s runs already", i+1, s.URL)
		case s.URL != "" && s.TLS:
			return fmt.Errorf("server %d: tls is for a command that is started; write the url as https://", i+1)
		}
		for _, v := range s.Env {
			if err := checkVariable(v); err != nil {
				return fmt.Errorf("server %d: %w", i+1, err)
			}
		}
		if s.URL != "" {
			if _, path, err := SplitURL(s.URL); err != nil {
				return fmt.Errorf("server %d: %w", i+1, err)
			} else if path != "/" {
				return fmt.Errorf("server %d: the path %s belongs to the requests; give %s", i+1, path, strings.TrimSuffix(s.URL, path))
			}
		}
	}
	for i, s := range e.Servers {
		for _, t := range e.Servers[:i] {
			if s.Label() == t.Label() && !e.HasSides() {
				return fmt.Errorf("server %d: there are two called %s; give them different names", i+1, quoteShort(s.Label()))
			}
		}
	}
	return nil
}

// checkVariable validates a variable of a command's environment.
func checkVariable(text string) error {
	if name, _, found := strings.Cut(text, "="); !found || name == "" {
		return fmt.Errorf("env %s is not NAME=value", quoteShort(text))
	}
	return nil
}

func (e *Experiment) checkMixes() error {
	if len(e.Requests) == 0 || len(e.Requests) > mixesMax {
		return fmt.Errorf("requests: %d are given, from 1 to %d can be; give - path: /", len(e.Requests), mixesMax)
	}
	for i := range e.Requests {
		m := &e.Requests[i]
		if len(m.Mix) > 0 && (m.Path != "" || m.Method != "" || m.Body != "" || len(m.Header) > 0) {
			return fmt.Errorf("requests %d: either one path or a mix, not both", i+1)
		}
		for _, r := range m.All() {
			if !strings.HasPrefix(r.Path, "/") {
				return fmt.Errorf("requests %d: the path %s does not begin with /", i+1, quoteShort(r.Path))
			}
		}
		for _, other := range e.Requests[:i] {
			if other.Label() == m.Label() {
				return fmt.Errorf("requests %d: there are two called %s; give them different names", i+1, quoteShort(m.Label()))
			}
		}
	}
	return nil
}

// bases returns the URLs of the servers, with one placeholder for all that are to be started.
func (e *Experiment) bases() []string {
	var list []string
	for i := range e.Servers {
		url := cmp.Or(e.Servers[i].URL, placeholder)
		if !slices.Contains(list, url) {
			list = append(list, url)
		}
	}
	return list
}

// checkLoad validates one run of every condition as a run, and that no setting is left without an
// effect.
func (e *Experiment) checkLoad() error {
	l := &e.Load
	lists := l.Lists
	if len(lists.Connections) == 0 {
		lists.Connections = List[Count]{64}
	}
	if e.Searches() {
		r, err := unit.ParseRate("1000")
		if err != nil {
			return err
		}
		lists.Rate = List[unit.Rate]{r}
	}
	for _, c := range lists.Conditions() {
		if err := e.checkCondition(&c); err != nil {
			return err
		}
	}
	connections := lists.Connections
	most := slices.Max(connections)
	if len(l.Threads) > 1 {
		most = slices.Min(connections) // every pair of the two lists is measured
	}
	switch threads := l.MostThreads(); {
	case l.Arrivals == Logged:
		return fmt.Errorf("invalid arrivals %s (use %s or %s); a log has its times with -R log --targets FILE", Logged, Constant, Poisson)
	case l.Arrivals != "" && !e.open():
		return fmt.Errorf("arrivals: %s arrivals need a rate; give one with -R 10k, or remove --arrivals", l.Arrivals)
	case len(l.Connections) > 0 && len(e.Factorial.Factors) == 0 && threads > int(most):
		return fmt.Errorf("threads: %d threads cannot share %d connections; give at most -t %d, or more connections with -c",
			threads, most, most)
	case l.TLS != nil && !slices.ContainsFunc(e.Servers, func(s Server) bool { return s.URL == "" || isSecure(s.URL) }):
		return errNoTLS
	}
	if err := l.TLS.check(); err != nil {
		return err
	}
	for _, list := range [][]Count{connections, l.Pipelining, l.Threads} {
		if twice(list) {
			return errors.New("load: a value appears twice in a list; repeats say how often each is measured")
		}
	}
	return nil
}

// checkCondition validates the runs of one load, with every mix at every server.
func (e *Experiment) checkCondition(c *Condition) error {
	for _, base := range e.bases() {
		for mix := range e.Requests {
			s, err := e.Spec(base, mix, c)
			if err == nil {
				err = s.Check()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func twice(list []Count) bool {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return len(slices.Compact(sorted)) < len(list)
}

func (e *Experiment) checkBounds() error {
	switch {
	case e.Repeats < 0 || e.Repeats > RepeatsMax:
		return fmt.Errorf("repeats: %d: must be 1–%d", e.Repeats, RepeatsMax)
	case e.Rest < 0 || time.Duration(e.Rest) > time.Hour:
		return fmt.Errorf("rest: %s: must be 0s–1h", time.Duration(e.Rest))
	case !(e.Find.Within >= 0 && e.Find.Within <= 0.5):
		return fmt.Errorf("find.within: %v: must be 0–0.5; 0.03 is 3%%", e.Find.Within)
	case e.Find.Most > 0 && e.Find.Start > e.Find.Most:
		return fmt.Errorf("find: --start %d (find.start) is above --max-rate %d (find.max_rate): a search goes up from its start", e.Find.Start, e.Find.Most)
	case e.Find.Start < 0 || e.Find.Most < 0 || float64(e.Find.Most) > RateMax:
		return fmt.Errorf("find: invalid range of rates: %d–%d req/s", e.Find.Start, e.Find.Most)
	case e.Prove.Namespace != "" && e.Prove.Interface == "":
		return errors.New("--namespace (prove.namespace): it names the namespace of the interface to throttle; give --interface (prove.interface) as well")
	case !(e.Prove.Share >= 0 && e.Prove.Share <= 0.8):
		return fmt.Errorf("prove.share: %v: must be 0–0.8; 0.25 removes a quarter", e.Prove.Share)
	case e.Compare.Blocks < 0 || e.Compare.Blocks > RunsMax/4 || e.Compare.NoiseBlocks < 0 || e.Compare.NoiseBlocks > RunsMax/4:
		return fmt.Errorf("compare: %d blocks, %d noise blocks: each must be 0–%d", e.Compare.Blocks, e.Compare.NoiseBlocks, RunsMax/4)
	}
	return nil
}

// WarmupTime returns the warm-up; 0 if none is set yet.
func (l *Load) WarmupTime() time.Duration {
	if l.Warmup == nil {
		return 0
	}
	return time.Duration(*l.Warmup)
}

// Spec returns one run of the experiment: a mix, by its index, sent to the server at base.
func (e *Experiment) Spec(base string, mix int, c *Condition) (Spec, error) {
	l := &e.Load
	s := Spec{
		Common: l.Common, Settings: l.Settings, Condition: *c, Seed: e.Seed, Duration: time.Duration(l.Duration), Warmup: l.WarmupTime(),
		ConnectRamp: time.Duration(l.ConnectRamp), Timeout: cmp.Or(time.Duration(l.Timeout), c.timeout()), Expect: e.Expect, SLO: e.SLO,
	}
	s.Dial = l.For(base)
	if s.Kind == Messages {
		if rest, plain := strings.CutPrefix(base, "http://"); plain {
			base = "ws://" + rest
		} else if rest, secure := strings.CutPrefix(base, "https://"); secure {
			base = "wss://" + rest
		}
	}
	s.Threads = min(cmp.Or(c.Threads, l.threads()), c.Connections)
	if !s.Open() {
		s.Arrivals = ""
	}
	if l.Link != "" {
		speed, err := unit.ParseBits(l.Link)
		if err != nil {
			return s, fmt.Errorf("link: %w", err)
		}
		s.LinkBitsPerSecond = float64(speed)
	}
	if !isSecure(base) {
		s.TLS = nil
	}
	for _, r := range e.Requests[mix].All() {
		t, err := r.target(base)
		if err != nil {
			return s, err
		}
		s.Targets = append(s.Targets, t)
	}
	return s, nil
}

func (r *MixRequest) target(base string) (Target, error) {
	t := Target{Method: r.Method, URL: base + r.Path, Weight: r.Weight, Body: r.Content, BodyHidden: r.BodyHidden, From: r.From}
	if t.Body == nil && r.BodyHidden == nil && r.Body != "" {
		t.Body = []byte(r.Body)
	}
	for _, text := range r.Header {
		f, err := ParseField(text)
		if err != nil {
			return t, err
		}
		t.Header = append(t.Header, f)
	}
	return t, nil
}

// SplitURL splits a URL into the server, as in Server.URL, and the path with its query.
func SplitURL(text string) (base, path string, err error) {
	_, path, _, err = ParseTarget(text)
	if err != nil {
		return "", "", err
	}
	whole, _, _ := strings.Cut(text, "#")
	whole = withoutEmptyPort(whole)
	if base, found := strings.CutSuffix(whole, path); found {
		return base, path, nil
	}
	if scheme, rest := splitScheme(whole); scheme == "unix" && !strings.Contains(rest, ":") {
		return whole + ":", path, nil // the colon ends the socket's path
	}
	// The path had been completed: "http://h", "http://h?q".
	return strings.TrimSuffix(whole, strings.TrimPrefix(path, "/")), path, nil
}
