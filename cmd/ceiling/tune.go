//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/measure/tune"
)

// tuneFlags are the flags common to the verbs of tune.
type tuneFlags struct {
	host       tune.Host
	options    tune.Options
	interrupts string
	asJSON     bool
}

func newTune(sh *shell) *cobra.Command {
	var f tuneFlags
	c := &cobra.Command{
		Use:   "tune",
		Short: "Tune this host: show, apply, verify by effect, revert",
		Long: `Sets sysctls, packet steering (RPS, RFS, XPS), interrupts, NIC queues, CPU frequency
and limits from documented profiles: server, client, rps-rfs, irq-pinned,
low-latency, or your own file. Each change is journaled first; revert undoes all.`,
		Example: `  ceiling tune show
  ceiling tune apply --dry-run rps-rfs
  sudo ceiling tune apply rps-rfs
  ceiling tune verify http://127.0.0.1:8080/
  sudo ceiling tune revert`,
	}
	flags := c.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&f.options.Interface, "interface", "", "NIC to tune (default: that of the default route)")
	flags.StringVar(&f.interrupts, "interrupts", "", "CPUs for its interrupts, e.g. 0-3 (default: a quarter of its node's cores)")
	flags.StringVar(&f.host.Namespace, "namespace", "", "named network namespace to tune")
	flags.StringVar(&f.host.Root, "root", "", "tune a copy of /proc, /sys and /etc below this directory instead")
	flags.StringVar(&f.host.State, "state", "", "directory of the journal (default: /var/lib/ceiling/tuning)")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document")
	c.AddCommand(newTuneShow(sh, &f), newTuneApply(sh, &f), newTuneVerify(sh, &f), newTuneRevert(sh, &f))
	return c
}

// complete parses the flags that need it.
func (f *tuneFlags) complete() error {
	if f.interrupts == "" {
		return nil
	}
	var err error
	f.options.Interrupts, err = spec.ParseCPUList(f.interrupts)
	return command.Usage(err)
}

func newTuneShow(sh *shell, f *tuneFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show [URL]",
		Short: "Show settings, what each profile would change, and why",
		Example: `  ceiling tune show
  ceiling tune show http://10.0.0.2:8080/`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.Exactly(1, "at most one URL")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.complete(); err != nil {
				return err
			}
			concerns := ""
			if len(args) == 1 {
				var err error
				if concerns, err = f.towards(c.Context(), args[0]); err != nil {
					return err
				}
			}
			shown, err := f.host.Show(f.options)
			if err != nil {
				return err
			}
			if shown.For = concerns; f.asJSON {
				return sh.JSON(shown)
			}
			return sh.Folded(shown.Text)
		},
	}
}

// towards says which profiles apply to this host for a load on a URL, and selects its interface
// unless one was named. It sends nothing.
func (f *tuneFlags) towards(ctx context.Context, url string) (string, error) {
	target, err := tuneTarget(ctx, url)
	if err != nil {
		return "", err
	}
	if !target.Server.IsValid() {
		return "server; a unix socket has no network in the way", nil
	}
	target.Here = f.host.Namespace == ""
	name, err := f.host.Interface(target)
	if err != nil {
		return "", err
	}
	f.options.Interface = cmp.Or(f.options.Interface, name)
	if name == "lo" {
		return "server: generator and server are both here, over the loopback, which has no NIC", nil
	}
	return "client here (low-latency for tails); server, rps-rfs or irq-pinned on the server's host", nil
}

// tuneTarget looks up where requests to a URL go. Of a name's addresses the first suffices.
func tuneTarget(ctx context.Context, url string) (*tune.Target, error) {
	address, _, _, err := spec.ParseTarget(url)
	if err != nil {
		return nil, command.Usage(err)
	}
	t := &tune.Target{URL: url}
	if address.Network == spec.Unix {
		return t, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", address.Host)
	if err != nil {
		return nil, fmt.Errorf("find the way to %s: %w", url, err)
	}
	t.Server = netip.AddrPortFrom(ips[0].Unmap(), 0)
	return t, nil
}

func newTuneApply(sh *shell, f *tuneFlags) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "apply PROFILE|FILE",
		Short: "Apply a profile; without privilege, print the commands",
		Long: `Applies server, client, rps-rfs, irq-pinned, low-latency, or a file. Each change is
written to disk before it is made. If one fails, or the kernel sets another value,
the earlier ones are undone. The tuning lasts until ceiling tune revert, or a reboot.`,
		Example: `  ceiling tune apply --dry-run server
  sudo ceiling tune apply --interface eth0 irq-pinned
  sudo ceiling tune apply ./mine.yaml`,
		Args: command.Exactly(1, "one profile or file"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.complete(); err != nil {
				return err
			}
			profile, err := tune.Load(args[0])
			if err != nil {
				return command.Usage(err)
			}
			plan, err := f.host.Plan(profile, f.options)
			if err != nil {
				return err
			}
			allowed := os.Geteuid() == 0 || f.host.Root != ""
			if !dry && allowed {
				if _, err := plan.Apply(c.Context(), tune.Owner{Who: sh.who(), Stays: true}); err != nil {
					return err
				}
			}
			if f.asJSON {
				err = sh.JSON(plan)
			} else {
				err = plan.Text(sh.Stdout, dry || !allowed)
			}
			if err == nil && !dry && !allowed {
				return errors.New("only root may change these; run the commands above as root, or: sudo " + strings.Join(sh.Args, " "))
			}
			return err
		},
	}
	c.Flags().BoolVarP(&dry, "dry-run", "", false, "print the commands; change nothing")
	return c
}

// verifyDefault is how long verify observes.
const verifyDefault = 2 * time.Second

func newTuneVerify(sh *shell, f *tuneFlags) *cobra.Command {
	long := verifyDefault
	c := &cobra.Command{
		Use:   "verify [URL]",
		Short: "Verify the effect of the tuning: packets, interrupts, queues",
		Long: `Reads the kernel's counters twice and reports which CPUs processed packets, which
CPUs the NIC interrupted, and how many connections a new listener queues. With a URL
it sends requests there in between, and some datagrams to its discard port; without
one, run it under load. Exit code 3: a setting has no effect, or another program
has reverted it.`,
		Example: `  ceiling tune verify
  ceiling tune verify --duration 5s http://10.0.0.2:8080/`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.Exactly(1, "at most one URL")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			watch := tune.Watch{For: long}
			if long < 100*time.Millisecond || long > time.Hour {
				return command.Usage(fmt.Errorf("--duration %s is not between 100ms and 1h", long))
			}
			if len(args) == 1 {
				target, err := tuneTarget(c.Context(), args[0])
				if err != nil {
					return err
				}
				if watch.Probe = target.Server.Addr(); f.host.Root == "" {
					watch.Target = target
				}
				watch.Traffic = func(ctx context.Context) error { return requests(ctx, args[0]) }
			}
			seen, err := f.host.Verify(c.Context(), watch)
			if c.Context().Err() != nil {
				sh.Exit = exit.Interrupted
				return nil
			}
			if err != nil {
				return err
			}
			if seen.Bad() {
				sh.Exit = exit.Fail
			}
			if f.asJSON {
				return sh.JSON(seen)
			}
			return sh.Folded(seen.Text)
		},
	}
	c.Flags().DurationVarP(&long, "duration", "d", verifyDefault, "time between the two readings")
	return c
}

// requests sends requests until ctx ends, to generate packets to observe. Its error says that
// none was answered.
func requests(ctx context.Context, url string) error {
	const clients = 16
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var answered atomic.Int64
	failures := make(chan error, clients)
	for range clients {
		go func() {
			var last error
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					last = err
					break
				}
				answer, err := client.Do(req)
				if err != nil {
					last = err
					time.Sleep(50 * time.Millisecond)
					continue
				}
				if _, err := io.Copy(io.Discard, answer.Body); err == nil {
					answered.Add(1)
				}
				_ = answer.Body.Close() // read completely, or broken
			}
			failures <- last
		}()
	}
	var failed error
	for range clients {
		failed = cmp.Or(failed, <-failures)
	}
	if answered.Load() == 0 && failed != nil {
		return fmt.Errorf("no request was answered: %w", failed)
	}
	return nil
}

// who returns the user and the command line.
func (sh *shell) who() string {
	name := "uid " + fmt.Sprint(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" {
		name = by + " (sudo)"
	}
	return name + ": ceiling " + strings.Join(sh.Args[1:], " ")
}

func newTuneRevert(sh *shell, f *tuneFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "revert",
		Short: "Undo the tuning, last change first",
		Example: `  sudo ceiling tune revert
  sudo ceiling tune revert --json`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			done, err := f.host.Revert()
			if errors.Is(err, tune.ErrNotTuned) {
				fmt.Fprintln(sh.Stderr, "ceiling: "+err.Error())
				done, err = []tune.Reverted{}, nil
			}
			if f.asJSON {
				return errors.Join(sh.JSON(done), err)
			}
			return errors.Join(sh.Folded(func(w io.Writer) error { return tune.TextReverted(w, done) }), err)
		},
	}
}
