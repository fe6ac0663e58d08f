package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
)

// A setting is a flag of the measuring verbs. All that is known of it stands here: help, completion, the
// groups of --help and what is said of it beside an experiment file follow.
type setting struct {
	name, letter string
	of           []string // verbs that have it; nil: all that measure
	into         any      // *string, *[]string, *bool, *int or *uint64
	value        string   // default
	help         string
	key          string   // in an experiment file; beside: it goes with one; "": a file has none for it
	words        []string // that the shell completes
	bare         string   // the value of the flag without one
}

// beside is the key of a setting that goes with an experiment file: one of its length, or that says nothing
// about what is measured.
const beside = "-"

// Verbs of some settings.
var (
	oneRun  = []string{"run", "profile"}                  // read-only
	several = []string{"run", "find", "prove", "compare"} // read-only
	onlyRun = []string{"run"}                             // read-only
)

// flagGroup is a group of settings in a help screen.
type flagGroup struct {
	title    string
	settings []setting
}

// groups returns the settings in the order of --help, which describes the first group; --help-all describes
// all.
func (f *runFlags) groups() []flagGroup {
	return []flagGroup{{"Common", commonFlags(f)}, {"Load", sentFlags(f)}, {"Plan", plannedFlags(f)}, {"Server", servingFlags(f)}, {"Output", printedFlags(f)},
		{"TLS", securedFlags(f)}, {"Hosts", append(betweenFlags(f), f.fleet.settings()...)}}
}

func commonFlags(f *runFlags) []setting {
	l, out := &f.load, &f.output
	return []setting{
		{name: "connections", letter: "c", value: "64", into: &l.connections, key: "load.connections", help: "connections"},
		{name: "duration", letter: "d", value: "10s", into: &l.duration, key: beside, help: "measured time (also -z)"},
		{name: "rate", letter: "R", into: &l.rate, key: "load.rate", help: "open loop: total rate (10k, 50/1s, ramp 1k:5k, steps 1k+5k, a log's: log*10)"},
		{name: "requests", letter: "n", of: oneRun, into: &l.requests, help: "stop after N requests instead of a duration"},
		{name: "pipelining", letter: "p", value: "1", into: &l.pipelining, key: "load.pipelining", help: "requests in flight on each connection"},
		{name: "method", letter: "m", into: &l.method, key: "requests[].method", help: "method (GET, or POST with a body)"},
		{name: "header", letter: "H", into: &l.header, key: "requests[].header", help: "header field 'Name: value'; repeatable"},
		{name: "user", letter: "u", into: &l.user, key: "requests[].header", help: "user:password for the server (basic authentication)"},
		{name: "body", letter: "b", into: &l.body, key: "requests[].body", help: "body: text, @file, or @- for standard input"},
		{name: "timeout", into: &l.timeout, key: "load.timeout", help: "request and connect timeout (2s, or more for over 10k in flight)"},
		{name: "slo", into: &f.slo, key: "slo", help: "SLO to check: 'p99<5ms,first_byte.p99<1ms,errors<0.1%'"},
		{name: "repeats", of: several, value: "0", into: &f.plan.repeats, key: beside, help: "runs per condition (0 = auto)"},
		{name: "live", into: &out.live, key: beside, bare: liveAddress, help: "serve a live dashboard (--live=ADDR to choose the address)"},
		{name: "out", letter: "o", into: &out.out, key: beside, help: "file or directory for the record (default: your store)"},
		{name: "json", into: &out.json, key: beside, help: "print the result as one JSON document"},
		{name: "verbose", letter: "v", into: &out.verbose, key: beside, help: "print all of the text: evidence, lag, unloaded requests"},
	}
}

func sentFlags(f *runFlags) []setting {
	l, from, s := &f.load, &f.load.from, &f.settings
	return []setting{
		{name: "targets", into: &from.targets, key: "requests",
			help: "file of requests: vegeta's format with weights, HAR, curl lines, access log; - is standard input"},
		{name: "curl", into: &from.curl, help: "the request of a curl command line: --curl 'curl -H … URL'"},
		{name: "feed", into: &from.feed, key: "requests",
			help: "file with values for {{.column}} in URL, header and body: CSV, NDJSON or a list (none: send {{…}} unchanged)"},
		{name: "once", of: onlyRun, into: &from.once, key: "requests", help: "send each row of --feed, or each target, once and in order, then end"},
		{name: "session", into: &from.session, key: "requests",
			help: "file with the steps of each user, with values of earlier responses in later requests (YAML)"},
		{name: "lua", into: &from.lua, key: "requests", help: "script of wrk that makes the requests (setup, init, request, response, delay, done)"},
		{name: "lua-arg", into: &from.luaArgs, key: "requests", help: "argument of the script's init; repeatable"},
		{name: "abort-errors", into: &f.abort, key: beside, help: "end a run once this share of a second's requests were errors: 10%"},
		{name: "expect", into: &f.expect, key: "expect", words: []string{"2xx", "2xx,3xx", "2xx,304", "404"},
			help: "what a response must be: 2xx,304 (default: below 400), 'body contains ok', 'json $.a == 1'; repeatable"},
		{name: "threads", letter: "t", value: "0", into: &l.threads, key: "load.threads", help: "generator threads (0 = auto)"},
		{name: "warmup", into: &l.warmup, key: "load.warmup", help: "warm-up, excluded from all figures (10% of -d, at most 1s)"},
		{name: "arrivals", into: &s.Arrivals, key: "load.arrivals", words: []string{spec.Constant, spec.Poisson},
			help: "arrivals of an open loop: constant or poisson"},
		{name: "http", into: &s.HTTP, key: "load.http", words: []string{spec.HTTP11, spec.HTTP2}, help: "HTTP version: 1.1 or 2 (default: https asks the server)"},
		{name: "new-connections", into: &l.newConnections, key: "load.new_connections", bare: "1",
			help: "a new connection for each request, or after so many (--new-connections=100)"},
		{name: "connect-ramp", into: &l.ramp, key: "load.connect_ramp", help: "open the connections over this time"},
		{name: "engine", value: spec.EngineAuto, into: &s.Engine, key: "load.engine",
			words: []string{spec.EngineAuto, spec.EngineUring, spec.EngineEpoll, spec.EnginePortable},
			help:  "auto, uring, epoll, or portable: Go's net package, the only engine outside Linux"},
		{name: "seed", value: "0", into: &l.seed, key: beside, help: "random seed (0 = auto)"},
		{name: "no-unloaded", into: &s.NoLone, key: "load.no_lone", help: "skip the unloaded requests, sent one at a time before the warm-up"},
	}
}

func plannedFlags(f *runFlags) []setting {
	return []setting{
		{name: "pause", of: several, value: "500ms", into: &f.plan.pause, key: beside, help: "pause before each of several runs"},
		{name: "resume", of: onlyRun, into: &f.plan.resume, help: "continue an interrupted plan by its ID: run only what is missing"},
		{name: "dry-run", of: several, into: &f.plan.dryRun, key: beside, help: "print the runs and their duration, then exit"},
	}
}

func servingFlags(f *runFlags) []setting {
	s := &f.settings
	return []setting{
		{name: "pin-generator", into: &s.PinGenerator, key: "load.pin_generator", help: "pin the generator to these CPUs, e.g. 0-3,8"},
		{name: "pin-server", into: &s.PinServer, key: "load.pin_server", help: "pin the server to these CPUs (restored afterwards)"},
		{name: "separate-cpus", into: &f.server.separate, key: beside, help: "separate CPUs for generator and server (default with --serve)"},
		{name: "link-speed", into: &s.Link, key: "load.link", help: "link speed if the kernel does not know it: 50Gbps"},
		{name: "pprof", into: &s.Pprof, key: "load.pprof", help: "server pprof address, or several: a,b (off disables)"},
		{name: "database", into: &f.server.database, key: beside, help: "PostgreSQL behind the server, to query its wait events: postgres://…"},
		{name: "profile", into: &s.Profile, key: "load.profile", help: "profile all of the server's processes"},
	}
}

func printedFlags(f *runFlags) []setting {
	out := &f.output
	return []setting{
		{name: "quiet", of: several, into: &out.quiet, key: beside, help: "no progress output"},
		{name: "keep-secrets", into: &out.keepSecrets, key: beside, help: "save credentials and bodies in the record and in --json"},
		{name: "prometheus", into: &f.prometheus, key: beside, help: "serve /metrics at this address during the run, e.g. :9464"},
	}
}

func securedFlags(f *runFlags) []setting {
	t := &f.load.tls
	return []setting{
		{name: "insecure", into: &t.Insecure, key: "load.tls.insecure", help: "https: accept any certificate"},
		{name: "cacert", into: &t.CACert, key: "load.tls.cacert", help: "https: CA certificates to trust (PEM file)"},
		{name: "cert", into: &t.Cert, key: "load.tls.cert", help: "https: client certificate (PEM file)"},
		{name: "key", into: &t.Key, key: "load.tls.key", help: "https: key of the client certificate (PEM file)"},
		{name: "sni", into: &t.ServerName, key: "load.tls.server_name", help: "https: server name (default: the URL's host)"},
		{name: "tls-version", into: &t.Version, key: "load.tls.version", help: "https: the only version to offer, 1.2 or 1.3"},
		{name: "ciphers", into: &t.Ciphers, key: "load.tls.ciphers", help: "https: TLS 1.2 cipher suites to offer"},
		{name: "curves", into: &t.Curves, key: "load.tls.curves", help: "https: key exchange groups to offer: X25519MLKEM768,X25519,P-256"},
		{name: "tls-resume", into: &t.Resume, key: "load.tls.resume", help: "https: resume sessions instead of full handshakes"},
	}
}

func betweenFlags(f *runFlags) []setting {
	l, s := &f.load, &f.settings
	return []setting{
		{name: "proxy", letter: "x", into: (*string)(&s.Proxy), key: "load.proxy", help: "HTTP proxy to go through: [http://][USER:PASSWORD@]HOST:PORT"},
		{name: "location", into: &l.follow, help: "follow redirects once, before the run, and load where they lead"},
		{name: "resolve", into: &s.Resolve, key: "load.resolve", help: "HOST:PORT:ADDRESS: connect to this address; repeatable"},
		{name: "all-addresses", into: &s.AllAddresses, key: "load.all_addresses", help: "spread the connections over all addresses of the host"},
		{name: "unix", into: &s.Unix, key: "load.unix", help: "connect to this unix socket instead of the URL's host"},
		{name: "source-ips", into: &l.sourceIPs, key: "load.source_ips", help: "local addresses to spread the connections over: 10.0.0.2,10.0.1.0/28"},
	}
}

// declare adds the flags of a measuring verb, shared and own, if the command line can be about them: those
// of all five took a tenth of the time in which ceiling --version runs.
func (sh *shell) declare(c *cobra.Command, f *runFlags, own func(*pflag.FlagSet)) *cobra.Command {
	if sh.mayUse(c.Name()) {
		f.bind(c)
		groupFlags(c)
		own(c.Flags())
	}
	return c
}

// mayUse reports whether the command line may use a verb's flags: it names the verb, a verb about all
// verbs, or it has a flag first.
func (sh *shell) mayUse(verb string) bool {
	if len(sh.Args) == 0 {
		return true
	}
	words := withVerb(sh.Args[1:])
	about := []string{verb, "help", "man", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}
	return len(words) > 0 && slices.Contains(about, words[0]) || len(words) > 1 && strings.HasPrefix(words[0], "-")
}

// bind adds the settings that the verb has.
func (f *runFlags) bind(c *cobra.Command) {
	p := c.Flags()
	p.SortFlags = false
	for _, g := range f.groups() {
		for _, s := range g.settings {
			if s.of != nil && !slices.Contains(s.of, c.Name()) {
				continue
			}
			s.bind(p)
			if s.words == nil {
				continue
			}
			if err := c.RegisterFlagCompletionFunc(s.name, cobra.FixedCompletions(s.words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
				panic(err) // a flag that was not added: a bug in this function
			}
		}
	}
	f.changed, f.set = p.Changed, p.Set
	p.FuncP("z", "z", "the same as -d", func(text string) error { return p.Set("duration", text) })
	p.Lookup("z").Hidden = true
}

// bind adds the setting.
func (s setting) bind(p *pflag.FlagSet) {
	switch into := s.into.(type) {
	case *string:
		p.StringVarP(into, s.name, s.letter, s.value, s.help)
	case *[]string:
		p.StringArrayVarP(into, s.name, s.letter, nil, s.help)
	case *bool:
		p.BoolVarP(into, s.name, s.letter, false, s.help)
	case *int:
		p.IntVarP(into, s.name, s.letter, 0, s.help)
	case *uint64:
		p.Uint64VarP(into, s.name, s.letter, 0, s.help)
	default:
		panic(fmt.Sprintf("--%s is a %T", s.name, into)) // a bug in the table
	}
	if s.bare != "" {
		p.Lookup(s.name).NoOptDefVal = s.bare
	}
}

// allSettings returns those of a verb that has all.
func allSettings() (list []setting) {
	for _, g := range new(runFlags).groups() {
		list = append(list, g.settings...)
	}
	return list
}

// besideFile are the flags that go with an experiment file.
func besideFile() []string {
	names := []string{"z"}
	for _, s := range allSettings() {
		if s.key == beside {
			names = append(names, s.name)
		}
	}
	return names
}

// inFile returns the key of an experiment file that says the same as a flag; "" for none.
func inFile(name string) string {
	own := map[string]string{"serve": "servers", "path": "requests[].path", "fail-on": "compare.fail_on", "blocks": "compare.blocks",
		"noise-blocks": "compare.noise_blocks"} // flags of one verb
	for _, s := range allSettings() {
		if s.name == name {
			return s.key
		}
	}
	return own[name]
}

// outputNames are the flags that say how a result is printed.
func outputNames() []string { return []string{"json", "verbose", "quiet"} }

// only refuses a flag that is given and not in a list; why is what the refusal says.
func only(c *cobra.Command, names []string, why func(name string) string) error {
	var refused error
	c.Flags().Visit(func(f *pflag.Flag) {
		if refused == nil && f.Name != "help" && !slices.Contains(names, f.Name) {
			refused = fmt.Errorf("--%s: %s", f.Name, why(f.Name))
		}
	})
	return refused
}

// groupFlags shows a verb's flags in groups in its help, starting with the verb's own flags under
// its name. Those that are less common are described by --help-all, and only named by --help.
func groupFlags(c *cobra.Command) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		own, all := flagGroup{title: strings.ToUpper(c.Name()[:1]) + c.Name()[1:]}, allSettings()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !slices.ContainsFunc(all, func(s setting) bool { return s.name == f.Name }) {
				own.settings = append(own.settings, setting{name: f.Name})
			}
		})
		var b strings.Builder
		fmt.Fprintf(&b, "Usage: %s\nExamples:\n%s\n\n", c.UseLine(), c.Example)
		groups, shown := append([]flagGroup{own}, new(runFlags).groups()...), 2
		if command.HelpAll(c) {
			shown = len(groups)
		}
		for _, g := range groups[:shown] {
			if set := g.of(c); set.HasAvailableFlags() {
				fmt.Fprintf(&b, "%s:\n%s", g.title, set.FlagUsages())
			}
		}
		for i, g := range groups[shown:] {
			if i == 0 {
				fmt.Fprintf(&b, "More (%s --help-all describes them):\n", c.CommandPath())
			}
			b.WriteString(g.named(c))
		}
		_, err := fmt.Fprint(c.OutOrStderr(), b.String())
		return err
	})
}

// of returns the flags of a group that a verb has.
func (g *flagGroup) of(c *cobra.Command) *pflag.FlagSet {
	set := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
	set.SortFlags = false
	for _, s := range g.settings {
		if f := c.Flags().Lookup(s.name); f != nil {
			set.AddFlag(f)
		}
	}
	return set
}

// named formats a group as flag names, in lines of at most 110 columns.
func (g *flagGroup) named(c *cobra.Command) string {
	const width, indent = 110, 16
	text := fmt.Sprintf("  %-*s", indent-2, g.title)
	column := indent
	names := 0
	g.of(c).VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if column+len(f.Name)+3 > width {
			text = strings.TrimRight(text, " ") + "\n" + strings.Repeat(" ", indent)
			column = indent
		}
		text += "--" + f.Name + " "
		column += len(f.Name) + 3
		names++
	})
	if names == 0 {
		return ""
	}
	return strings.TrimRight(text, " ") + "\n"
}
