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
	settings   spec.Load // but for what is read from other texts: lists, files, numbers
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
	rate                              string
	method, body                      string
	header                            []string
	user                              string // user:password
	newConnections, sourceIPs         string
	follow                            bool
	seed                              uint64
	tls                               spec.TLS
	from                              sourceFlags
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

// serverFlags define the placement of generator and server, and how the server is monitored.
type serverFlags struct {
	separate bool
	database string
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
	return sh.declare(c, &f, func(*pflag.FlagSet) {})
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
	if err == nil && f.load.follow {
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
		urls, err := run.Follow(ctx, &list[i], f.settings.Dial, secure)
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

// readSession reads the file of --session, for the server of a URL, and returns its steps.
func (f *runFlags) readSession(args []string, fields []spec.Field) ([]spec.Target, error) {
	from := &f.load.from
	if from.targets != "" || from.curl != "" || from.lua != "" || from.once || f.load.method != "" || f.load.body != "" {
		return nil, errors.New("--session: the file has the requests; leave --targets, --curl, --lua, --once, -m and -b out")
	}
	if err := notURL(args[0]); err != nil {
		return nil, err
	}
	base, path, err := spec.SplitURL(args[0])
	switch {
	case err != nil:
		return nil, err
	case spec.IsWebSocket(args[0]):
		return nil, errors.New("--session: its steps are requests; give an http:// or https:// URL")
	case path != "" && path != "/":
		return nil, fmt.Errorf("--session: the file has the paths; give only the server: %s", base)
	}
	if f.session, err = spec.ReadSession(from.session); err != nil {
		return nil, fmt.Errorf("--session: %w", err)
	}
	list, err := f.session.Targets(base)
	if err != nil {
		return nil, fmt.Errorf("--session: %s: %w", from.session, err)
	}
	for i := range list {
		list[i].Header = append(list[i].Header, fields...)
	}
	return list, nil
}
