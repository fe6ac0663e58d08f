package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/measure/observe"
	"ceiling/record"
)

// Config configures the checks.
type Config struct {
	// URL of the server; "" checks the host alone.
	URL string
	// Watch is how long the host's activity is monitored.
	Watch time.Duration
	// Version of this program.
	Version string
}

const (
	lookupTimeout = 5 * time.Second
	// looks is how often the CPUs are sampled. The observer skips samples to stay cheap, on a
	// slow machine even for a second: then monitoring takes up to lookLonger more.
	looks      = 10
	lookLonger = 5 * time.Second
	lookAgain  = 100 * time.Millisecond
)

// Examine reads the host. It changes nothing and sends nothing to the server; for a name with
// several addresses it tests which one accepts a connection. It returns an error for an invalid
// URL or the end of ctx; the Facts list what could not be read.
func Examine(ctx context.Context, c Config) (*Facts, error) {
	f := &Facts{When: time.Now(), Env: record.ReadEnvironment(c.Version), Files: readFiles(os.DirFS("/")), Engine: probe()}
	f.Calibration = calibration(&f.Env, f.Engine.Name)
	var watched observe.Config
	if c.URL != "" {
		address, _, _, err := spec.ParseTarget(c.URL)
		if err != nil {
			return nil, err
		}
		f.Target.URL = c.URL
		watched = f.Target.find(ctx, address)
	}
	watched.Host = f.Env.Host
	if err := f.watch(ctx, watched, c.Watch); err != nil {
		return nil, err
	}
	if f.Target.Iface != "" {
		f.Target.readInterface(os.DirFS("/"))
		if f.Target.Namespace > 0 {
			f.Target.SpeedMbit, f.Target.MTU, f.Target.RxQueues = -1, -1, -1
			f.Target.QdiscErr = "the interface is in another network namespace"
		} else {
			var err error
			if f.Target.Qdisc.Kind, f.Target.Qdisc.BytesPerSecond, err = observe.RootQdisc(f.Target.Iface); err != nil {
				f.Target.QdiscErr = err.Error()
			}
		}
	}
	return f, nil
}

// probe opens the engine that a run would use.
func probe() Engine {
	release := sys.HoldThread()
	defer release()
	r, err := ring.Open(ring.Config{})
	if err != nil {
		return Engine{Err: err.Error()}
	}
	e := Engine{Name: r.Engine(), Why: r.Why(), Features: r.Features()}
	if err := r.Shut(); err != nil {
		e.Err = err.Error()
	}
	return e
}

// calibration returns why no calibration fits; "" if one does.
func calibration(env *record.Environment, engine string) string {
	path, err := record.CalibrationFile(os.Getenv)
	if err != nil {
		return err.Error()
	}
	all, err := record.ReadCalibrations(path)
	if err != nil {
		return err.Error()
	}
	_, why := record.FitCalibration(all, env, engine)
	return why
}

// find looks up the address and locates the server.
func (t *Target) find(ctx context.Context, a spec.Address) observe.Config {
	if a.Network == "unix" {
		t.Unix, t.Local = true, true
		return observe.Config{TargetUnix: a.Path}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", a.Host)
	if err != nil {
		t.Err = fmt.Sprintf("look up %s: %v", a.Host, err)
		return observe.Config{}
	}
	at := netip.AddrPortFrom(ips[0].Unmap(), a.Port)
	if len(ips) > 1 {
		at = firstThatAccepts(ctx, ips, at)
	}
	t.Local = sys.IsLocal(at.Addr())
	c := observe.Config{TargetAddr: at, GeneratorPID: os.Getpid()}
	if !t.Local {
		t.Namespace = observe.FindNamespace(at)
		c.NetNSPID = t.Namespace
	}
	return c
}

// connectTimeout is that of each of several addresses.
const connectTimeout = time.Second

// firstThatAccepts chooses among several addresses of a name, as runs and browsers do: the first
// that accepts a connection, or first if none does.
func firstThatAccepts(ctx context.Context, ips []netip.Addr, first netip.AddrPort) netip.AddrPort {
	dialer := net.Dialer{Timeout: connectTimeout}
	for _, ip := range ips {
		at := netip.AddrPortFrom(ip.Unmap(), first.Port())
		c, err := dialer.DialContext(ctx, "tcp", at.String())
		if err == nil {
			_ = c.Close() // nothing was sent
			return at
		}
	}
	return first
}

// watch samples the host for a while, and finds the target's interface, listeners and processes.
func (f *Facts) watch(ctx context.Context, c observe.Config, long time.Duration) error {
	o, err := observe.New(c)
	if err != nil {
		f.Activity = Activity{Err: err.Error(), Throttles: -1, SwapPages: -1}
		f.Target.ServerErr = err.Error()
		return nil
	}
	defer o.Close()
	seen := &sight{}
	before := takeSnapshot(os.DirFS("/"))
	start := time.Now()
	for i := 0; i <= looks || len(seen.cpus) == 0 && time.Since(start) < long+lookLonger; i++ {
		next := start.Add(long * time.Duration(i) / looks)
		if i > looks {
			next = time.Now().Add(lookAgain)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next)):
		}
		o.Sample(1+int64(time.Since(start)), seen.take)
	}
	after := takeSnapshot(os.DirFS("/"))
	f.Activity = activityOf(before, after, seen.cpus, os.Getpid(), seen.server)
	f.Target.Server, f.Target.Listeners = seen.server, seen.listeners
	if f.Target.Iface = seen.iface; f.Target.URL != "" && f.Target.Err == "" {
		f.Target.explain(o.NotMeasured())
	}
	return nil
}

// explain records why the interface or the server was not found.
func (t *Target) explain(missing []record.NotMeasured) {
	for _, n := range missing {
		switch {
		case n.What == "netdev target" && t.Iface == "":
			t.Err = n.Why
		case (n.What == "sockets" || n.What == "listener") && len(t.Server) == 0 && t.Listeners == 0 && !t.remote():
			t.ServerErr = n.Why
		}
	}
}

// sight collects the observer's rows that are needed.
type sight struct {
	cpus      []*record.CPURow
	server    []Process
	listeners int
	iface     string
}

// take keeps what is needed of a row.
func (s *sight) take(row record.ObservedRow) {
	switch row := row.(type) {
	case *record.CPURow:
		s.cpus = append(s.cpus, row)
	case *record.SubjectRow:
		if row.Role == record.RoleSubject && row.Event == record.SubjectFound {
			s.server = append(s.server, Process{PID: row.PID, Comm: row.Comm})
		}
	case *record.ListenerRow:
		s.listeners = max(s.listeners, len(row.Listeners))
	case *record.NetDevRow:
		if row.Target {
			s.iface = row.Iface
		}
	}
}
