// Package command is what the programs of this repository have in common as commands: where their
// output goes, how their errors read, what their help looks like, and how one finds the others.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ceiling/internal/exit"
)

// Data goes to stdout, messages to stderr. An error is one line that says what, where, and how to
// fix it. Exit codes: 0 pass or valid, 1 error, 2 bad arguments, 3 fail, 4 invalid, 130
// interrupted.

// Shell is a verb's environment.
type Shell struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Exit is the exit code of a verb that ran without error but with a result to signal.
	Exit int
	// Performs, where it is set, gets a resolved command line in place of its effects.
	Performs func(Job) error
}

// Job is a resolved command line: all that its flags say, before anything has an effect.
type Job any

// Perform does a job, unless resolving it failed.
func (sh *Shell) Perform(ctx context.Context, j interface {
	Do(ctx context.Context, sh *Shell) error
}, err error) error {
	switch {
	case err != nil:
		return Usage(err)
	case sh.Performs != nil:
		return sh.Performs(j)
	}
	return j.Do(ctx, sh)
}

// Execute runs one command line, without the program's name, and returns the exit code. explain may
// replace an error by one with better advice.
func (sh *Shell) Execute(ctx context.Context, root *cobra.Command, args []string, explain func(error) error) int {
	Prepare(root)
	args = addHelpAll(root, args)
	root.SetArgs(args)
	root.SetIn(sh.Stdin)
	root.SetOut(sh.Stdout)
	root.SetErr(sh.Stderr)
	err := SingleDash(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return sh.Exit
	}
	if explain != nil {
		err = explain(err)
	}
	Complain(sh.Stderr, "ceiling: "+OneLine(err))
	if IsUsage(err) {
		return exit.Refused
	}
	return exit.Error
}

// JSON prints a value as one document, to be read by people too.
func (sh *Shell) JSON(v any) error {
	e := json.NewEncoder(sh.Stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Prepare makes a root read, complain and help as all of these programs do.
func Prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	// hints.go prints suggestions in one line
	root.DisableSuggestions, root.SuggestionsMinimumDistance = true, 2
	root.Version = Version()
	addMan(root)
	refuseHelpTopics(root)
	root.SetFlagErrorFunc(unknownFlag)
	foldHelp(root)
}

// refuseHelpTopics makes help of an unknown verb an error; cobra's own prints the usage and succeeds.
func refuseHelpTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if help := c.Run; c.Name() == "help" && help != nil {
			c.Run, c.RunE = nil, func(c *cobra.Command, args []string) error {
				if _, _, err := root.Find(args); err != nil {
					return err
				}
				help(c, args)
				return nil
			}
		}
	}
}

// Signals returns the signals that end a command with the results so far. They include SIGHUP (a
// lost ssh session), unless nohup ignores it.
func Signals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// Exactly requires n arguments, with an error that says what is wanted.
func Exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		if len(args) == 0 && strings.HasPrefix(what, "one URL") {
			return Usage(fmt.Errorf("missing URL; usage: %s URL, e.g. %[1]s http://127.0.0.1:8080/", c.CommandPath()))
		}
		for _, word := range args {
			if _, err := time.ParseDuration("1" + word); err == nil || word == "min" || word == "sec" {
				return Usage(fmt.Errorf("%q is separated from its number; write a time as one word, as in -d 5m or -d 10s", word))
			}
		}
		return Usage(fmt.Errorf("%s takes %s, got %d arguments; see: %s --help", c.Name(), what, len(args), c.CommandPath()))
	}
}

// helpAll is the flag of HelpAll.
const helpAll = "help-all"

// addHelpAll gives every verb of a root --help-all, which includes --help.
func addHelpAll(root *cobra.Command, args []string) []string {
	root.PersistentFlags().Bool(helpAll, false, "describe the less common flags, too")
	root.PersistentFlags().Lookup(helpAll).Hidden = true // the help of verbs that have some says so
	if i := slices.Index(args, "--"+helpAll); i >= 0 && !slices.Contains(args[:i], "--") {
		return slices.Insert(slices.Clone(args), i, "--help")
	}
	return args
}

// HelpAll reports whether a verb's help is to describe all of its flags.
func HelpAll(c *cobra.Command) bool { return c.Flags().Changed(helpAll) }

// foldHelp wraps every help screen to the terminal's width, except examples, which are meant to
// be copied.
func foldHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		var b strings.Builder
		out := c.OutOrStdout()
		c.SetOut(&b)
		help(c, args)
		c.SetOut(out)
		l := Output(out)
		text := l.Fold(b.String())
		if before, after, found := strings.Cut(b.String(), c.Example); found && c.Example != "" {
			text = l.Fold(before) + c.Example + l.Fold(after)
		}
		fmt.Fprint(out, text) // as in cobra: unwritable help is not an error
	})
}

// usageError marks a user's mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func IsUsage(err error) bool {
	var u usageError
	return errors.As(err, &u) || errors.Is(err, exit.ErrRefused) ||
		// cobra gives these no type
		strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "required flag")
}

// OneLine joins an error of several lines into one.
func OneLine(err error) string {
	text := strings.TrimPrefix(err.Error(), exit.ErrRefused.Error()+": ")
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}
