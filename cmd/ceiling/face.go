package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/faces"
	"ceiling/experiment/spec"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/show/face"
	"ceiling/verdict/prose"
)

// Faces: the command lines and outputs of other load generators. ceiling NAME, or a link of that name
// to this program.

func newFace(sh *shell, t *faces.Tool) *cobra.Command {
	return &cobra.Command{Use: t.Name + " …", Short: t.Short, Example: "  ceiling " + t.Example, DisableFlagParsing: true, Hidden: true,
		RunE: func(c *cobra.Command, args []string) error { return sh.wear(c.Context(), t, args) }}
}

// wear does what a tool's command line asks for.
func (sh *shell) wear(ctx context.Context, t *faces.Tool, args []string) error {
	f, err := t.Parse(args)
	switch {
	case err != nil:
		return command.Usage(fmt.Errorf("%s: %w; see: ceiling %[1]s --help", t.Name, err))
	case f.Help:
		_, err := io.WriteString(sh.Stdout, t.HelpText())
		return err
	case f.Version:
		_, err := fmt.Fprintf(sh.Stdout, "%s as ceiling %s runs it\n", t.Name, command.Version())
		return err
	}
	o, err := orderOf(ctx, f, sh)
	return sh.perform(ctx, &worn{t, f, o}, err)
}

// orderOf is the run that a command line asks for.
func orderOf(ctx context.Context, f *faces.CommandLine, sh *shell) (*order, error) {
	var own runFlags
	c := &cobra.Command{Use: "run"}
	own.bind(c)
	if err := c.ParseFlags(ownFlags(f)); err != nil {
		return nil, err
	}
	var urls []string
	if f.URL != "" {
		urls = []string{f.URL}
	}
	o, err := own.order(ctx, spec.KindSweep, urls, sh)
	if err != nil {
		return nil, err
	}
	if own.isPlan() {
		return nil, errors.New("a list of values; give one")
	}
	if err := o.single(&own); err != nil {
		return nil, err
	}
	return o, o.composed(&own)
}

// ownFlags are the flags of ceiling run: there is no warm-up, as in those tools, unless one is asked
// for.
func ownFlags(f *faces.CommandLine) []string { return append([]string{"--warmup", "0s"}, f.Own...) }

// ranAs is the command of ceiling run that a tool's command line comes to: advice is that command with
// one thing changed, and the tool's own flags have none of ours.
func ranAs(f *faces.CommandLine) []string {
	words := append([]string{"ceiling", "run"}, ownFlags(f)...)
	if f.URL != "" {
		words = append(words, f.URL)
	}
	return words
}

// worn is a run that looks like another tool's.
type worn struct {
	tool  *faces.Tool
	given *faces.CommandLine
	order *order
}

func (w *worn) do(ctx context.Context, sh *shell) error {
	defer relaxGC()()
	out := sh.Stdout
	if w.tool.Aside {
		out = sh.Stderr
	}
	f := w.given
	r := &face.Run{URL: f.URL, Threads: f.Threads, Asked: f.Duration, Done: &record.Run{Spec: *w.order.one}}
	if s := w.order.script; s != nil && s.Requests == nil {
		// As in wrk, a script has the threads that were asked for, before anything is printed.
		w.order.one.Threads = min(f.Threads, w.order.one.Connections)
		if err := s.Prepare(w.order.one.Threads); err != nil {
			return err
		}
	}
	if !f.JSON {
		if err := w.tool.Begin(out, r, f); err != nil {
			return err
		}
	}
	if w.tool.Hits {
		r.Hits = &face.Hits{}
	}
	options := run.Options{Command: ranAs(f), Version: command.Version(), Compose: w.order.compose}
	options.Listen(func(e run.Event) {
		if e.Progress != nil {
			r.Add(&e.Progress.Row, e.Progress.Response)
		}
	})
	done, err := run.Do(ctx, *w.order.one, options)
	if err != nil {
		return err
	}
	r.Done, r.Response = &done.Run, &done.Response
	if done.Run.Load.Established == 0 {
		return errors.New(prose.Sentence(done.Run.Verdict.Because))
	}
	if f.JSON {
		out = sh.Stdout
	}
	if err := w.tool.End(out, r, f); err != nil {
		return err
	}
	if err := w.order.ended(done); err != nil {
		return err
	}
	sh.judged(done)
	return nil
}

// judged prints the verdict beside another tool's output, and where the rest is.
func (sh *shell) judged(done *run.Result) {
	v := &done.Run.Verdict
	name := string(v.Outcome)
	if v.Bottleneck != "" {
		name += " · " + string(v.Bottleneck)
	}
	fmt.Fprintf(sh.Stderr, "ceiling: %s: %s\n", name, prose.Sentence(v.Because))
	if len(v.Next) > 0 {
		fmt.Fprintf(sh.Stderr, "ceiling: next: %s\n", prose.Sentence(v.Next))
	}
	switch {
	case done.KeepErr != nil:
		fmt.Fprintln(sh.Stderr, "ceiling: "+record.Incomplete(done.File.Path, done.KeepErr))
	default:
		fmt.Fprintf(sh.Stderr, "ceiling: more: ceiling show -v %s\n", done.Run.ID)
	}
}

// newVegeta is vegeta with its verbs.
func newVegeta(sh *shell) *cobra.Command {
	t := faces.Of("vegeta")
	return &cobra.Command{Use: "vegeta …", Short: t.Short, Example: "  ceiling " + t.Example, DisableFlagParsing: true, Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			verb := ""
			if len(args) > 0 {
				verb, args = args[0], args[1:]
			}
			switch strings.TrimLeft(verb, "-") {
			case "attack":
				return sh.wear(c.Context(), t, args)
			case "report", "encode":
				o, err := faces.NewReading(verb, args)
				return sh.Perform(c.Context(), o, err)
			case "plot":
				return command.Usage(errors.New("vegeta plot: a run is plotted from its record: ceiling report --open"))
			case "version":
				_, err := fmt.Fprintf(sh.Stdout, "vegeta as ceiling %s runs it\n", command.Version())
				return err
			case "help", "h", "":
				_, err := io.WriteString(sh.Stdout, t.HelpText()+"\nvegeta report [-type text|json|hist[0,10ms]|hdrplot] [-buckets [0,10ms]] [-output FILE] [FILE …]\n"+
					"vegeta encode [-to csv|json|gob] [-output FILE] [FILE …]\n")
				return err
			}
			return command.Usage(fmt.Errorf("vegeta %s: none of attack, report, encode", verb))
		}}
}
