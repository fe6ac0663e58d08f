package plan

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// Weights of a Difference.
const (
	WeightForbids  = "forbids"
	WeightExplains = "explains"
	WeightNoted    = "noted"
)

// notRecorded is the value of a fact missing from a record.
const notRecorded = "not recorded"

// Fact is a property of a run other than its result.
type Fact struct {
	What string
	// Value as text; "" if the record lacks it.
	Value string
	// Weight of a difference in it.
	Weight string
	// Why a difference matters: the suffix of a code that begins with "differs."; "" if obvious.
	Why string
	// Wanted facts are listed even if both sides lack them.
	Wanted bool
}

// Facts that another tool's result may have too, by Fact.What.
const (
	FactTool        = "load generator"
	FactLoop        = "loop"
	FactFrom        = "latency counts from"
	FactConnections = "connections"
	FactRequests    = "requests"
)

// ToolFacts returns the facts of another tool's result, as far as it has them: the loop ("closed"
// or "open"), the starting point of latencies ("due" or "sent"), and the URL, assumed to be
// requested with GET.
func ToolFacts(tool, loop, from string, connections int, target string) []Fact {
	facts := []Fact{
		{FactTool, tool, WeightExplains, "tool", true},
		{FactLoop, loop, WeightForbids, "", true},
		{FactFrom, from, WeightForbids, "", true},
		{FactConnections, numberText(connections), WeightForbids, "", true},
	}
	if target != "" {
		text, host := requestText(&spec.Target{Method: "GET", URL: target, Weight: 1})
		facts = append(facts, Fact{FactRequests, text, WeightForbids, "mix", true},
			Fact{"address", host, WeightNoted, "", false})
	}
	return facts
}

// differences is a list under construction.
type differences []record.Difference

func (d *differences) add(weight, what, a, b, why string) {
	if a != b {
		*d = append(*d, record.Difference{What: what, A: a, B: b, Weight: weight, Why: reason(why)})
	}
}

// reason explains why a difference matters.
func reason(code string) record.Statement {
	if code == "" {
		return record.Statement{}
	}
	return say("differs."+code, nil)
}

func (d *differences) explains(what, a, b string) { d.add(WeightExplains, what, a, b, "") }

// sorted sorts the most important first.
func (d differences) sorted() []record.Difference {
	rank := func(w string) int { return slices.Index([]string{WeightForbids, WeightExplains, WeightNoted}, w) }
	slices.SortStableFunc(d, func(a, b record.Difference) int { return rank(a.Weight) - rank(b.Weight) })
	if d == nil {
		return []record.Difference{}
	}
	return d
}

// differ compares the facts of two sides, one list of facts per run. It returns differences that
// forbid a comparison separately.
func differ(a, b [][]Fact) (list []record.Difference, incomparable []record.Statement) {
	var d differences
	valuesA, valuesB := valuesOf(a), valuesOf(b)
	var forbidden []string
	for _, f := range known(a, b) {
		x, y := valuesA[f.What], valuesB[f.What]
		switch {
		case len(x) > 1 && f.Weight == WeightForbids, len(y) > 1 && f.Weight == WeightForbids:
			d = append(d, record.Difference{What: f.What, A: joined(x), B: joined(y), Weight: WeightForbids,
				Why: reason("conditions")})
			forbidden = append(forbidden, f.What)
		case len(x) == 0 && len(y) == 0:
			if f.Wanted {
				d = append(d, record.Difference{What: f.What, A: notRecorded, B: notRecorded, Weight: WeightNoted,
					Why: reason("unknown")})
			}
		case len(x) == 0 || len(y) == 0:
			d.add(WeightNoted, f.What, joined(x), joined(y), "unknown")
		case !slices.Equal(x, y):
			d.add(f.Weight, f.What, joined(x), joined(y), f.Why)
			if f.Weight == WeightForbids {
				forbidden = append(forbidden, f.What)
			}
		}
	}
	if len(forbidden) > 0 {
		incomparable = []record.Statement{say("incomparable.differ", with{"facts": strings.Join(forbidden, ", ")})}
	}
	return d.sorted(), incomparable
}

// known returns the facts that any run has, without duplicates, in order.
func known(sides ...[][]Fact) []Fact {
	var facts []Fact
	seen := map[string]bool{}
	for _, side := range sides {
		for _, run := range side {
			for _, f := range run {
				if !seen[f.What] {
					seen[f.What] = true
					facts = append(facts, f)
				}
			}
		}
	}
	return facts
}

// valuesOf returns the distinct values of each fact, sorted; none if no run has it.
func valuesOf(side [][]Fact) map[string][]string {
	values := map[string][]string{}
	for _, run := range side {
		for _, f := range run {
			if f.Value != "" && !slices.Contains(values[f.What], f.Value) {
				values[f.What] = append(values[f.What], f.Value)
			}
		}
	}
	for _, v := range values {
		slices.Sort(v)
	}
	return values
}

func joined(values []string) string {
	if len(values) == 0 {
		return notRecorded
	}
	return strings.Join(values, " | ")
}

// factsOf returns the properties of a run other than its result.
func factsOf(r *record.Run) []Fact {
	agents, env := agentFacts(r)
	return slices.Concat(requestFacts(&r.Spec), loadFacts(r), agents, hostFacts(env), subjectFacts(r))
}

// agentFacts returns the agents that generated the load, and the representative host of theirs:
// the load came from there, not from the host of the command.
func agentFacts(r *record.Run) ([]Fact, *record.Environment) {
	var names, models, kernels []string
	env, observers := &r.Environment, 0
	for i := range r.Agents {
		a := &r.Agents[i]
		if !a.Loads {
			observers++
			continue
		}
		if len(names) == 0 || a.Name < slices.Min(names) {
			env = &a.Environment
		}
		names = append(names, a.Name)
		models = append(models, fmt.Sprintf("%s, %d cores", a.Environment.CPUModel, a.Environment.CoresAllowed))
		kernels = append(kernels, a.Environment.Kernel)
	}
	if len(r.Agents) == 0 {
		return nil, env
	}
	each := func(list []string) string {
		slices.Sort(list)
		return strings.Join(slices.Compact(list), " | ")
	}
	return []Fact{
		{"agents", fmt.Sprintf("%d load, %d observe", len(names), observers), WeightExplains, "agents", true},
		{"machines of the agents", each(models), WeightForbids, "machine", true},
		{"kernels of the agents", each(kernels), WeightExplains, "kernel", true},
		{"names of the agents", each(names), WeightNoted, "", false},
	}, env
}

// requestFacts describes the requests. Another address of the same service is not another load.
func requestFacts(s *spec.Spec) []Fact {
	var targets, hosts []string
	for i := range s.Targets {
		text, host := requestText(&s.Targets[i])
		targets = append(targets, text)
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(targets)
	return []Fact{
		{FactRequests, strings.Join(targets, ", "), WeightForbids, "mix", true},
		{"address", strings.Join(hosts, ", "), WeightNoted, "", false},
	}
}

// requestText formats a target without its address; long parts are hashed.
func requestText(t *spec.Target) (text, host string) {
	path := t.URL
	if u, err := url.Parse(t.URL); err == nil && u.Host != "" {
		path, host = u.RequestURI(), u.Host
	}
	text = fmt.Sprintf("%s %s", t.Method, path)
	if t.Weight != 1 {
		text = fmt.Sprintf("%d× %s", t.Weight, text)
	}
	if len(t.Header) > 0 {
		text += " header " + hashOf(fmt.Sprint(t.Header)) // a header may contain a secret
	}
	switch {
	case t.BodyHidden != nil:
		text += fmt.Sprintf(" body of %d bytes %s", t.BodyHidden.Bytes, t.BodyHidden.Digest)
	case len(t.Body) > 0:
		text += fmt.Sprintf(" body of %d bytes %s", len(t.Body), hashOf(string(t.Body)))
	}
	return text, host
}

func hashOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:8] }

// loadFacts describes the load settings.
func loadFacts(r *record.Run) []Fact {
	s, l := &r.Spec, &r.Load
	return []Fact{
		{FactTool, "ceiling", WeightExplains, "tool", true},
		{FactFrom, map[string]string{"open": "due", "closed": "sent"}[l.Mode], WeightForbids,
			"latency-from", true},
		{FactLoop, l.Mode, WeightForbids, "loop", true},
		{FactConnections, numberText(l.Connections), WeightForbids, "", true},
		{"pipelining", numberText(l.Pipelining), WeightForbids, "", true},
		{"target rate", cmpText(s.Rate.String(), "none"), WeightForbids, "", false},
		{"arrivals", cmpText(l.Arrivals, "none"), WeightForbids, "", false},
		{"new connections", cmpText(s.NewConnections.Says(s.Kind), "no"), WeightForbids, "", false},
		{"proxy", cmpText(s.Proxy.Via(), "none"), WeightForbids, "", false},
		{"addresses of the server", map[bool]string{true: "all", false: "one"}[s.AllAddresses], WeightForbids, "", false},
		{"established connections", numberText(l.Established), WeightNoted, "", false},
		{"measured time", timeText(s.Duration), WeightNoted, "length", false},
		{"asked requests", cmpText(countText(s.Requests), "none"), WeightNoted, "", false},
		{"warm-up", timeText(s.Warmup), WeightNoted, "", false},
		{"connect ramp", timeText(s.ConnectRamp), WeightNoted, "", false},
		{"timeout", timeText(s.Timeout), WeightNoted, "", false},
		{"generator version", r.Environment.Version, WeightExplains, "generator", true},
		{"generator engine", l.Engine, WeightExplains, "generator", true},
		{"generator engine features", strings.Join(l.EngineFeatures, " "), WeightNoted, "", false},
		{"generator threads", numberText(l.Threads), WeightExplains, "generator", true},
		{"generator CPUs", cmpText(s.PinGenerator, "free"), WeightExplains, "", false},
		{"server CPUs as asked", cmpText(s.PinServer, "free"), WeightExplains, "", false},
	}
}

// hostFacts describes the load generator host, which is also the server's if they share it.
func hostFacts(e *record.Environment) []Fact {
	facts := []Fact{
		{"CPU model", e.CPUModel, WeightForbids, "machine", true},
		{"architecture", e.Arch, WeightForbids, "machine", false},
		{"cores online", numberText(e.CoresOnline), WeightForbids, "machine", true},
		{"cores allowed", numberText(e.CoresAllowed), WeightForbids, "cores", true},
		{"CPU quota", quotaText(e.CgroupCPUs), WeightForbids, "", false},
		{"host", e.Host, WeightNoted, "", false},
		{"hypervisor", e.Virtual, WeightNoted, "", false},
		{"memory", countText(e.MemoryBytes), WeightNoted, "", false},
		{"siblings", strings.Join(e.Siblings, " "), WeightExplains, "", false},
		{"kernel", e.Kernel, WeightExplains, "kernel", true},
		{"governor", e.Governor, WeightExplains, "clock", true},
		{"clock source", e.ClockSource, WeightNoted, "", false},
		{"Go of the generator", e.Go, WeightNoted, "", false},
	}
	facts = append(facts, Fact{"irqbalance", e.IRQBalance, WeightExplains, "irqbalance", false})
	for i := range e.Interfaces {
		n := &e.Interfaces[i]
		for _, f := range []Fact{
			{"driver", n.Driver, WeightExplains, "", false},
			{"receive queues", numberText(n.RxQueues), WeightExplains, "queues", false},
			{"transmit queues", numberText(n.TxQueues), WeightExplains, "", false},
			{"MTU", numberText(n.MTU), WeightExplains, "", false},
			{"RPS", cmpText(n.RPS, "off"), WeightExplains, "rps", false},
			{"RFS", cmpText(n.RFS, "off"), WeightExplains, "rfs", false},
			{"XPS", cmpText(n.XPS, "off"), WeightExplains, "", false},
			{"interrupts", n.IRQs, WeightExplains, "irqs", false},
			{"napi_defer_hard_irqs", numberText(n.NAPIDefer), WeightExplains, "", false},
			{"gro_flush_timeout", numberText(n.GROFlushNs), WeightExplains, "", false},
		} {
			f.What = n.Name + " " + f.What
			facts = append(facts, f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Sysctls)) {
		facts = append(facts, Fact{"sysctl " + name, e.Sysctls[name], WeightExplains, "", false})
	}
	for _, name := range slices.Sorted(maps.Keys(e.Limits)) {
		facts = append(facts, Fact{"limit " + name, e.Limits[name], WeightNoted, "", false})
	}
	return facts
}

// subjectFacts describes what was measured: usually the intended difference.
func subjectFacts(r *record.Run) []Fact {
	var binaries, procs, cpus, programs []string
	processes, threads := "", 0
	add := func(list *[]string, value string) {
		if value != "" && !slices.Contains(*list, value) {
			*list = append(*list, value)
		}
	}
	if s := r.Subject; s != nil {
		processes = strconv.Itoa(len(s.Processes))
		for _, p := range s.Processes {
			add(&binaries, p.BinaryID)
			add(&programs, p.Exe)
			add(&cpus, p.CPUsAllowed)
			threads += p.Threads
			add(&procs, procsText(&p))
		}
	}
	for _, l := range [][]string{binaries, programs, cpus, procs} {
		slices.Sort(l)
	}
	return []Fact{
		{"server processes", processes, WeightExplains, "", true},
		{"server program", strings.Join(programs, ", "), WeightExplains, "", true},
		{"server binary", strings.Join(binaries, ", "), WeightExplains, "build", true},
		{"server GOMAXPROCS", strings.Join(procs, ", "), WeightExplains, "", true},
		{"server CPUs", strings.Join(cpus, ", "), WeightExplains, "", true},
		{"server threads", numberText(threads), WeightNoted, "", false},
	}
}

// procsText formats the configured GOMAXPROCS. If the binary was readable, so was the
// environment: then 0 means that it is not set.
func procsText(p *record.SubjectProcess) string {
	if p.GOMAXPROCS == 0 && p.BinaryID != "" {
		return "not set"
	}
	return numberText(p.GOMAXPROCS)
}

func cmpText(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func countText(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func timeText(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}

func quotaText(cores float64) string {
	if cores == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3g cores", cores)
}
