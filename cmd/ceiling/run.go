package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/measure/data"
	"ceiling/measure/lua"
	"ceiling/measure/run"
	"ceiling/record"
)

// runFlags are the flags of a run as typed. They use wrk's letters where wrk has one.
type runFlags struct {
	load       loadFlags
	server     serverFlags
	output     outputFlags
	slo        string
	expect     []string
	abort      string
	plan       planFlags
	prometheus string
	fleet      fleetFlags
	// changed reports whether a flag was given, by its name.
	changed func(string) bool
	set     func(flag, value string) error
	script  *lua.Script // of --lua
	session *spec.Session
	feed    *data.Feed // of --feed; nil: none
	fills   bool       // requests have places that are filled in
	replay  *replay    // of -R log; nil: none
}

// loadFlags define the load.
type loadFlags struct {
	connections, pipelining, requests string
	threads                           string
	duration, warmup, timeout, ramp   string
	rate, arrivals, engine            string
	method, body                      string
	header                            []string
	user                              string // user:password
	noUnloaded                        bool
	newConnections                    string
	hosts                             hostFlags
	seed                              uint64
	http                              string // version
	tls                               spec.TLS
	from                              sourceFlags
}

// hostFlags say which hosts and addresses connections go from, through and to.
type hostFlags struct {
	sourceIPs, unix, proxy string
	resolve                []string
	allAddresses, follow   bool
}

// bind adds them.
func (f *hostFlags) bind(p *pflag.FlagSet) {
	p.StringVar(&f.sourceIPs, "source-ips", "", "local addresses to spread the connections over: 10.0.0.2,10.0.1.0/28")
	p.StringVarP(&f.proxy, "proxy", "x", "", "HTTP proxy to go through: [http://][USER:PASSWORD@]HOST:PORT")
	p.BoolVar(&f.follow, "location", false, "follow redirects once, before the run, and load where they lead")
	p.BoolVar(&f.allAddresses, "all-addresses", false, "spread the connections over all addresses of the host")
	p.StringArrayVar(&f.resolve, "resolve", nil, "HOST:PORT:ADDRESS: connect to this address; repeatable")
	p.StringVar(&f.unix, "unix", "", "connect to this unix socket instead of the URL's host")
}

// sourceFlags say where requests come from, if not from the URL.
type sourceFlags struct {
	targets, curl, lua string
	luaArgs            []string
	feed, session      string
	once               bool
}

// secure returns the TLS settings of https:// URLs; nil if none were given. It reads the files.
func (l *loadFlags) secure() (*spec.TLS, error) {
	if l.tls == (spec.TLS{}) {
		return nil, nil
	}
	t := l.tls
	return &t, t.Read("")
}

// dial returns the settings of connections: addresses and protocol.
func (l *loadFlags) dial() spec.Dial {
	h := &l.hosts
	d := spec.Dial{SourceIPs: list(h.sourceIPs), Resolve: h.resolve, Unix: h.unix, AllAddresses: h.allAddresses,
		Proxy: spec.ProxyURL(h.proxy), HTTP: l.http}
	return d
}

// serverFlags define the placement of generator and server, and how the server is monitored.
type serverFlags struct {
	pinGenerator, pinServer string
	separate                bool
	link, pprof, database   string
	profile                 bool
}

func newRun(sh *shell) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run URL",
		Short: "Measure one server under one load, or a list of them",
		Long:  `Measures one load; a list in -c, -p, -R or -t, or a FILE.yaml, makes a sweep.`,
		Example: `  ceiling run -c 1,10,100,500 -d 3s localhost:8080/read
  ceiling run -c 200 -R 10k --slo 'p99<5ms' localhost:8080/read
  ceiling run --resume x7f2`,
		Args: func(c *cobra.Command, args []string) error {
			if f.plan.resume {
				return command.Exactly(1, "the ID of an interrupted plan with --resume")(c, args)
			}
			return urlOrTargets(&f)(c, args)
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if f.plan.resume {
				return completeRuns(c, args, typed)
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.plan.resume {
				o, err := newResumption(c, args[0], &f, sh)
				return sh.perform(c.Context(), o, err)
			}
			if len(args) == 1 && spec.IsExperimentFile(args[0]) {
				return sh.fromFile(c, args[0], &f)
			}
			o, err := f.order(c.Context(), spec.KindSweep, args, sh)
			if err == nil && !f.isPlan() {
				err = o.single(&f)
			}
			if err == nil {
				err = o.composed(&f)
			}
			return sh.perform(c.Context(), o, err)
		},
	}
	f.bindRun(c)
	groupFlags(c)
	return c
}

// bindRun adds the flags of the verb run.
func (f *runFlags) bindRun(c *cobra.Command) {
	f.bind(c)
	p := c.Flags()
	p.StringVarP(&f.load.requests, "requests", "n", "", "stop after N requests instead of a duration")
	p.BoolVar(&f.plan.resume, "resume", false, "continue an interrupted plan by its ID: run only what is missing")
	p.BoolVar(&f.load.from.once, "once", false, "send each row of --feed, or each target, once and in order, then end")
	f.bindPlan(p)
}

// bind adds the flags of every measuring verb.
func (f *runFlags) bind(c *cobra.Command) {
	p := c.Flags()
	p.SortFlags = false
	p.StringVarP(&f.load.connections, "connections", "c", "64", "connections")
	p.StringVarP(&f.load.threads, "threads", "t", "0", "generator threads (0 = auto)")
	p.StringVarP(&f.load.duration, "duration", "d", "10s", "measured time (also -z)")
	p.StringVarP(&f.load.rate, "rate", "R", "", "open loop: total rate (10k, 50/1s, ramp 1k:5k, steps 1k+5k, a log's: log*10)")
	p.StringVarP(&f.load.pipelining, "pipelining", "p", "1", "requests in flight on each connection")
	p.StringVarP(&f.load.method, "method", "m", "", "method (GET, or POST with a body)")
	p.StringVarP(&f.load.user, "user", "u", "", "user:password for the server (basic authentication)")
	p.StringArrayVarP(&f.load.header, "header", "H", nil, "header field 'Name: value'; repeatable")
	p.StringVarP(&f.load.body, "body", "b", "", "body: text, @file, or @- for standard input")
	p.StringVar(&f.load.timeout, "timeout", "", "request and connect timeout (2s, or more for over 10k in flight)")
	p.StringVar(&f.load.warmup, "warmup", "", "warm-up, excluded from all figures (10% of -d, at most 1s)")
	p.StringVar(&f.load.engine, "engine", spec.EngineAuto, "auto, uring, epoll, or portable: Go's net package, the only engine outside Linux")
	p.StringVar(&f.load.arrivals, "arrivals", "", "arrivals of an open loop: constant or poisson")
	p.StringVar(&f.slo, "slo", "", "SLO to check: 'p99<5ms,first_byte.p99<1ms,errors<0.1%'")
	p.StringVar(&f.abort, "abort-errors", "", "end a run once this share of a second's requests were errors: 10%")
	p.StringArrayVar(&f.expect, "expect", nil, "what a response must be: 2xx,304 (default: below 400), 'body contains ok', 'json $.a == 1'; repeatable")
	f.load.from.bind(p)
	p.StringVar(&f.load.ramp, "connect-ramp", "", "open the connections over this time")
	p.StringVar(&f.load.newConnections, "new-connections", "", "a new connection for each request, or after so many (--new-connections=100)")
	p.Lookup("new-connections").NoOptDefVal = "1"
	p.StringVar(&f.load.http, "http", "", "HTTP version: 1.1 or 2 (default: https asks the server)")
	p.BoolVar(&f.load.tls.Insecure, "insecure", false, "https: accept any certificate")
	p.StringVar(&f.load.tls.CACert, "cacert", "", "https: CA certificates to trust (PEM file)")
	p.StringVar(&f.load.tls.Cert, "cert", "", "https: client certificate (PEM file)")
	p.StringVar(&f.load.tls.Key, "key", "", "https: key of the client certificate (PEM file)")
	p.StringVar(&f.load.tls.ServerName, "sni", "", "https: server name (default: the URL's host)")
	p.BoolVar(&f.load.tls.Resume, "tls-resume", false, "https: resume sessions instead of full handshakes")
	p.StringVar(&f.load.tls.Version, "tls-version", "", "https: the only version to offer, 1.2 or 1.3")
	p.StringVar(&f.load.tls.Ciphers, "ciphers", "", "https: TLS 1.2 cipher suites to offer")
	p.StringVar(&f.load.tls.Curves, "curves", "", "https: key exchange groups to offer: X25519MLKEM768,X25519,P-256")
	p.BoolVar(&f.load.noUnloaded, "no-unloaded", false, "skip the unloaded requests, sent one at a time before the warm-up")
	f.load.hosts.bind(p)
	p.StringVar(&f.server.pinGenerator, "pin-generator", "", "pin the generator to these CPUs, e.g. 0-3,8")
	p.StringVar(&f.server.pinServer, "pin-server", "", "pin the server to these CPUs (restored afterwards)")
	p.BoolVar(&f.server.separate, "separate-cpus", false, "separate CPUs for generator and server (default with --serve)")
	f.changed, f.set = p.Changed, p.Set
	p.StringVar(&f.server.link, "link-speed", "", "link speed if the kernel does not know it: 50Gbps")
	p.StringVar(&f.server.pprof, "pprof", "", "server pprof address, or several: a,b (off disables)")
	p.StringVar(&f.server.database, "database", "", "PostgreSQL behind the server, to query its wait events: postgres://…")
	p.BoolVar(&f.server.profile, "profile", false, "profile all of the server's processes")
	p.Uint64Var(&f.load.seed, "seed", 0, "random seed (0 = auto)")
	p.StringVar(&f.prometheus, "prometheus", "", "serve /metrics at this address during the run, e.g. :9464")
	f.fleet.bind(p)
	p.BoolVarP(&f.output.verbose, "verbose", "v", false, "print all of the text: evidence, lag, unloaded requests")
	p.BoolVar(&f.output.json, "json", false, "print the result as one JSON document")
	p.StringVar(&f.output.live, "live", "", "serve a live dashboard (--live=ADDR to choose the address)")
	p.Lookup("live").NoOptDefVal = liveAddress
	p.StringVarP(&f.output.out, "out", "o", "", "file or directory for the record (default: your store)")
	p.BoolVar(&f.output.keepSecrets, "keep-secrets", false, "save credentials and bodies in the record and in --json")
	p.FuncP("z", "z", "the same as -d", func(text string) error { return p.Set("duration", text) })
	p.Lookup("z").Hidden = true
	for name, values := range map[string][]string{
		"engine": {spec.EngineAuto, spec.EngineUring, spec.EngineEpoll, spec.EnginePortable}, "arrivals": {spec.Constant, spec.Poisson},
		"http": {spec.HTTP11, spec.HTTP2}, "expect": {"2xx", "2xx,3xx", "2xx,304", "404"},
	} {
		if err := c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // an unknown flag name: a bug in this function
		}
	}
}

// bind adds the flags that say where requests come from.
func (f *sourceFlags) bind(p *pflag.FlagSet) {
	p.StringVar(&f.targets, "targets", "", "file of requests: vegeta's format with weights, HAR, curl lines, access log; - is standard input")
	p.StringVar(&f.curl, "curl", "", "the request of a curl command line: --curl 'curl -H … URL'")
	p.StringVar(&f.lua, "lua", "", "script of wrk that makes the requests (setup, init, request, response, delay, done)")
	p.StringVar(&f.feed, "feed", "", "file with values for {{.column}} in URL, header and body: CSV, NDJSON or a list (none: send {{…}} unchanged)")
	p.StringVar(&f.session, "session", "", "file with the steps of each user, with values of earlier responses in later requests (YAML)")
	p.StringArrayVar(&f.luaArgs, "lua-arg", nil, "argument of the script's init; repeatable")
}

// kind returns the kind of load, from the URL, and refuses flags of another.
func (f *runFlags) kind(targets []spec.Target) (spec.LoadKind, error) {
	ws := len(targets) > 0 && spec.IsWebSocket(targets[0].URL)
	switch {
	case ws && f.changed("method"):
		return "", errors.New("-m: a WebSocket is opened by GET; remove it")
	case ws:
		return spec.Messages, nil
	}
	return spec.Requests, nil
}

// targetList returns the targets, with what fills them in.
func (f *runFlags) targetList(ctx context.Context, args []string, sh *shell) ([]spec.Target, error) {
	list, err := f.plainTargets(args, sh)
	if err == nil && f.load.hosts.follow {
		err = f.follow(ctx, list, sh)
	}
	for i := range list {
		if err == nil {
			err = list[i].MoveCredentials(f.load.user)
		}
	}
	if err != nil {
		return nil, err
	}
	return list, f.fillIn(list, sh)
}

// follow replaces the targets by what their redirects lead to.
func (f *runFlags) follow(ctx context.Context, list []spec.Target, sh *shell) error {
	secure, err := f.load.secure()
	if err != nil {
		return err
	}
	if f.plan.dryRun {
		return errors.New("--location, --dry-run: redirects are found by asking the server; remove one of them")
	}
	for i := range list {
		urls, err := run.Follow(ctx, &list[i], f.load.dial(), secure)
		if err != nil {
			return err
		}
		for k, url := range urls {
			urls[k] = secret.Plain().URL(url)
		}
		if len(urls) > 1 {
			sh.Note("ceiling: %s redirects to %s; the load goes there", urls[0], strings.Join(urls[1:], ", then "))
		}
	}
	return nil
}

// plainTargets returns the file's targets, or the one of the URL; -H applies to all.
func (f *runFlags) plainTargets(args []string, sh *shell) ([]spec.Target, error) {
	var fields []spec.Field
	for _, text := range f.load.header {
		field, err := spec.ParseField(text)
		if err != nil {
			return nil, fmt.Errorf("-H: %w", err)
		}
		fields = append(fields, field)
	}
	if len(f.load.from.luaArgs) > 0 && f.load.from.lua == "" {
		return nil, errors.New("--lua-arg: it goes to a script; give --lua FILE")
	}
	if strings.HasPrefix(f.load.rate, spec.Logged) && f.load.from.targets == "" {
		return nil, errors.New("-R log: the times come from an access log; give it with --targets FILE")
	}
	if f.load.from.session != "" {
		return f.readSession(args, fields)
	}
	if f.load.from.targets != "" || f.load.from.curl != "" {
		both := f.load.from.targets != "" && f.load.from.curl != "" || f.load.from.lua != ""
		if both || len(args) > 0 && f.load.from.curl != "" || f.load.method != "" || f.load.body != "" {
			return nil, errors.New("--targets, --curl: they have the URLs, methods and bodies; leave out the other of them, the URL, --lua, -m and -b")
		}
		list, err := f.borrowed(args, sh)
		given := func(field spec.Field) bool { // in place of the request's own: curl names itself in each
			return slices.ContainsFunc(fields, func(f spec.Field) bool { return strings.EqualFold(f.Name, field.Name) })
		}
		for i := range list {
			list[i].Header = append(slices.DeleteFunc(list[i].Header, given), fields...)
		}
		return list, err
	}
	if err := notURL(args[0]); err != nil {
		return nil, err
	}
	if f.load.from.lua != "" {
		return f.readScript(args[0], fields, sh)
	}
	if _, err := unit.ParseDuration(f.load.method); err == nil {
		return nil, fmt.Errorf("-m: invalid method %s (use -m POST); a time is -d %[1]s, streams on each connection are -p %[1]s", f.load.method)
	}
	t := spec.Target{Method: strings.ToUpper(f.load.method), URL: args[0], Header: fields, Weight: 1}
	if f.load.body != "" {
		body, err := spec.ReadBody(f.load.body, sh.Stdin)
		if err != nil {
			return nil, fmt.Errorf("-b: %w", err)
		}
		t.Body = body
		if !spec.IsWebSocket(t.URL) {
			t.Method = cmp.Or(t.Method, "POST")
		}
	}
	t.Method = cmp.Or(t.Method, "GET")
	return []spec.Target{t}, nil
}

// list splits a text at commas; nil for "".
func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func span(into *time.Duration, flag, text string) error {
	if text == "" {
		return nil
	}
	d, err := unit.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	*into = d
	return nil
}

// saved prints where a record is, and how to see more of it.
func (sh *shell) saved(f record.File, id string) {
	store, err := record.DefaultStore(os.Getenv)
	if err != nil || filepath.Dir(f.Path) != store.Dir {
		fmt.Fprintf(sh.Stderr, "saved to %s  ·  ceiling show %s\n", f, id)
		return
	}
	short := store.Short(id)
	fmt.Fprintf(sh.Stderr, "saved as %s · ceiling show -v %[1]s · ceiling report --open %[1]s\n", short)
}

// listens reports whether a URL's address may accept connections: only a refusal is false.
func listens(d *spec.Dial, url string) bool {
	address, err := d.Address(url)
	if err != nil {
		return true
	}
	conn, err := net.DialTimeout(address.Network, address.String(), time.Second)
	if err == nil {
		err = conn.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}
