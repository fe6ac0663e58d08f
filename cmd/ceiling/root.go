// Command ceiling measures how fast an HTTP service can go, and names its bottleneck.
package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ceiling/measure/run"
	"ceiling/server/quorum"
)

func main() {
	os.Exit(execute(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// Data goes to stdout, messages to stderr. An error is one line that says what, where, and how to
// fix it. Exit codes: 0 pass or valid, 1 error, 2 bad arguments, 3 fail, 4 invalid, 130
// interrupted.

// shell is a verb's environment.
type shell struct {
	args   []string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	// exit is the exit code of a verb that ran without error but with a result to signal.
	exit int
	// performs, where it is set, gets a resolved command line in place of its effects.
	performs func(job) error
}

// execute runs one command line and returns the exit code.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	sh := &shell{args: args, stdin: stdin, stdout: stdout, stderr: stderr}
	ctx, stop := signal.NotifyContext(context.Background(), ends(args[1:])...)
	defer stop()
	if replica := os.Getenv(quorum.ReplicaEnv); replica != "" { // started by a server with --kv
		if err := quorum.Serve(ctx, replica, stdout); err != nil {
			fmt.Fprintln(stderr, "ceiling: "+oneLine(err))
			return run.ExitError
		}
		return 0
	}
	root := newRoot(sh)
	command := withVerb(args[1:])
	root.SetArgs(command)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := singleDash(root, command)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err != nil {
		if unknown := unknownVerb(root, args[1:], err); unknown != nil {
			err = unknown
		}
		complain(stderr, "ceiling: "+oneLine(err))
		if isUsage(err) {
			return run.ExitRefused
		}
		return run.ExitError
	}
	return sh.exit
}

// ends returns the signals that end a command with the results so far. They include SIGHUP (a
// lost ssh session), unless nohup ignores it, or the command is the proxy, which reloads on it.
func ends(args []string) []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) && !slices.Contains(args, "proxy") {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// usageError marks a user's mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func isUsage(err error) bool {
	var u usageError
	return errors.As(err, &u) || errors.Is(err, run.ErrRefused) ||
		// cobra gives these no type
		strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "required flag")
}

// oneLine joins an error of several lines into one.
func oneLine(err error) string {
	text := strings.TrimPrefix(err.Error(), run.ErrRefused.Error()+": ")
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}

func newRoot(sh *shell) *cobra.Command {
	root := &cobra.Command{
		Use:   "ceiling",
		Short: "How fast can this HTTP service go, and what is the bottleneck?",
		Long: `ceiling loads an HTTP server, observes both ends, and reports the throughput and
the resource that limits it, or explains why the run is invalid.
ceiling URL is short for ceiling run URL.`,
		Example: `  ceiling demo                                 measure the built-in servers
  ceiling run http://127.0.0.1:8080/path       measure yours
  ceiling serve fasthttp --addr :8080          start a built-in server to try it on`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// hints.go prints suggestions in one line
		DisableSuggestions: true, SuggestionsMinimumDistance: 2,
		Version: version(),
	}
	root.SetFlagErrorFunc(unknownFlag)
	foldHelp(root)
	root.AddCommand(newRun(sh), newFind(sh), newProve(sh), newProfile(sh), newCompare(sh), newResume(sh),
		newList(sh), newShow(sh), newJudge(sh), newReport(sh), newOpen(sh), newExport(sh), newWatch(sh), newJournal(sh),
		newDemo(sh), newServe(sh), newProxy(sh), newRace(sh), newRegimes(sh), newCalibrate(sh), newDoctor(sh), newTune(sh), newSelftest(sh),
		newController(sh), newAgent(sh), newFleet(sh), newPlanted(sh), newHog(sh), newBaseline(sh))
	return root
}

// version returns the module's version, or the commit of the build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "build-" + buildID() // without git: two builds still differ
}

// buildID returns the end of the linker's ID of this program, which is a hash of its content.
func buildID() string {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	section := f.Section(".note.go.buildid")
	if section == nil {
		return "unknown"
	}
	note, err := section.Data()
	if err != nil {
		return "unknown"
	}
	id := string(bytes.TrimRight(note, "\x00"))
	return id[max(0, len(id)-12):]
}

// exactly requires n arguments, with an error that says what is wanted.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		if len(args) == 0 && strings.HasPrefix(what, "one URL") {
			return usage(fmt.Errorf("missing URL; usage: %s URL, e.g. %[1]s http://127.0.0.1:8080/", c.CommandPath()))
		}
		return usage(fmt.Errorf("%s takes %s, got %d arguments; see: %s --help", c.Name(), what, len(args), c.CommandPath()))
	}
}
