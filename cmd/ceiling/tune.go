//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
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
		Short: "Tune this host: show, apply, revert",
		Long: `Sets sysctls, packet steering (RPS, RFS, XPS), interrupts, NIC queues and CPU
frequency from documented profiles: server, client, rps-rfs, irq-pinned,
low-latency, or your own file. Each change is journaled first; revert undoes all.`,
		Example: `  ceiling tune show
  ceiling tune apply --dry-run rps-rfs
  sudo ceiling tune apply rps-rfs
  sudo ceiling tune revert`,
	}
	flags := c.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&f.options.Interface, "interface", "", "NIC to tune (default: the default route's)")
	flags.StringVar(&f.interrupts, "interrupts", "", "CPUs for its interrupts, e.g. 0-3 (default: a quarter of its node's cores)")
	flags.StringVar(&f.host.Namespace, "namespace", "", "named network namespace to tune")
	flags.StringVar(&f.host.Root, "root", "", "tune a copy of /proc and /sys below this directory instead")
	flags.StringVar(&f.host.State, "state", "", "directory of the journal (default: /var/lib/ceiling/tuning)")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document")
	c.AddCommand(newTuneShow(sh, &f), newTuneApply(sh, &f), newTuneRevert(sh, &f))
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
		Use:   "show",
		Short: "Show settings, what each profile would change, and why",
		Args:  command.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			if err := f.complete(); err != nil {
				return err
			}
			shown, err := f.host.Show(f.options)
			if err != nil {
				return err
			}
			if f.asJSON {
				return sh.JSON(shown)
			}
			return sh.Folded(shown.Text)
		},
	}
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
