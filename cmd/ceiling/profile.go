package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/show/export"
	"ceiling/show/report"
)

func newProfile(sh *shell) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "profile URL",
		Short: "Profile a server under load: on-CPU, off-CPU and Go's own",
		Long: `Loads a server and profiles all its processes: on-CPU and off-CPU for any
language; for Go also block, mutex, heap and goroutine profiles, GC pauses and
scheduler latency, from its pprof address. Profiling alternates on and off during
the run, which measures its overhead.`,
		Example: `  ceiling profile http://127.0.0.1:8080/read
  ceiling profile --pprof 127.0.0.1:6060 http://127.0.0.1:8080/read
  ceiling profile --files out http://127.0.0.1:8080/read`,
		Args: urlOrTargets(&f),
		RunE: func(c *cobra.Command, args []string) error {
			if f.changed("profile") {
				return command.Usage(errors.New("--profile: it is what this verb does; remove it, or run without profiles: ceiling run"))
			}
			if f.isList() {
				return command.Usage(errors.New("profile makes one run; give one -c, -p and -R, or ceiling run --profile for a sweep"))
			}
			f.settings.Profile = true
			o, err := f.order(c.Context(), spec.KindSweep, args, sh)
			if err == nil {
				err = o.single(&f)
			}
			if err == nil {
				err = o.composed(&f)
			}
			return sh.perform(c.Context(), o, err)
		},
	}
	return sh.declare(c, &f, func(p *pflag.FlagSet) {
		p.StringVar(&f.output.files, "files", "", "directory for the profiles, as pprof and folded stacks")
		hide(c, "profile")
		p.Lookup("duration").DefValue, f.load.duration = "20s", "20s"
	})
}

// writeProfiles writes a saved run's profiles: KIND.pprof.gz and KIND.folded each.
func (sh *shell) writeProfiles(f record.File, dir string) error {
	source, err := export.Open(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--files: %w", err)
	}
	for _, kind := range source.Profiles() {
		packed, err := source.Pprof(kind)
		if err != nil {
			return err
		}
		folded, err := source.Folded(kind)
		if err != nil {
			return err
		}
		err = errors.Join(os.WriteFile(filepath.Join(dir, record.ProfileFile(kind)), packed, 0o644),
			os.WriteFile(filepath.Join(dir, kind+".folded"), folded, 0o644))
		if err != nil {
			return fmt.Errorf("--files: %w", err)
		}
	}
	fmt.Fprintf(sh.Stderr, "written: %d profiles to %s, as .pprof.gz and .folded\n", len(source.Profiles()), dir)
	return nil
}

// profiled reports on the requested profiles.
func (o *order) profiled(sh *shell, done *run.Result) error {
	if !o.one.Profile {
		return nil
	}
	if done.Run.Requests.Completed == 0 {
		return nil // nothing to profile ran, as the verdict states
	}
	if g := done.Run.Profiling; g == nil || len(g.Profiles) == 0 {
		// The text above may have omitted the reasons.
		return errors.New("no profile was taken: " + strings.Join(report.MissingProfiles(&done.Run), "; "))
	}
	if o.files == "" || done.KeepErr != nil {
		return nil
	}
	return sh.writeProfiles(done.File, o.files)
}
