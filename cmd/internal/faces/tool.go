// Package faces reads the command lines of other load generators as ceiling's own, and prints runs
// as they do, so that what calls them and reads them still works.
package faces

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ceiling/show/face"
)

// Tool is another load generator.
type Tool struct {
	Name, Short, Example string
	// options makes its table, which only its own command line needs: all of them take 60 µs, and
	// every start of ceiling names the tools.
	options func() []Option
	table   []Option
	// single: flags of several letters have one dash too, as in Go's package flag.
	single bool
	// defaults of its load, where they are not ours.
	defaults CommandLine
	// Begin and End write what it prints before and after a run.
	Begin, End func(w io.Writer, r *face.Run, f *CommandLine) error
	// Aside: its text goes to standard error, as autocannon's does.
	Aside bool
	// more takes an argument after the URL and --; nil: it has none there.
	more func(f *CommandLine, text string) error
	// noURL: it takes no URL, but a list of targets. Hits: its output has every response.
	noURL, Hits bool
	check       func(f *CommandLine) error
}

// Option is one of its flags.
type Option struct {
	names []string // without dashes
	// value names the argument; "": there is none.
	value string
	// differs says what is not as in the tool, and of a flag that is refused why; "": the same.
	differs string
	set     func(f *CommandLine, text string) error // nil: refused
	// on: a switch that is on unless it is set to false; only then set is called.
	on bool
}

// CommandLine is another tool's, as ceiling's own.
type CommandLine struct {
	Own      []string // flags of ceiling run
	URL      string
	Threads  int           // as asked for
	Duration time.Duration // as asked for
	// JSON, Help, Version: what is to be printed instead.
	JSON, Help, Version bool

	connections string
	latency     bool
	cannon      face.Autocannon
	vegeta      vegetaAttack
}

// All lists them.
func All() []*Tool {
	return []*Tool{wrkFace(), goWrkFace(), autocannonFace(), vegetaFace()}
}

// Of returns the tool that a program's name, or that of a link to it, asks for; nil: it is ceiling.
func Of(program string) *Tool {
	name := filepath.Base(program)
	for _, t := range All() {
		if t.Verb() == name {
			return t
		}
	}
	return nil
}

// Verb is the first word of its name: vegeta attack is one of vegeta's.
func (t *Tool) Verb() string {
	verb, _, _ := strings.Cut(t.Name, " ")
	return verb
}

// Parse reads a command line as the tool does: flags before and after the URL.
func (t *Tool) Parse(args []string) (*CommandLine, error) {
	f := t.defaults
	f.Own = slices.Clone(f.Own)
	for at := 0; at < len(args); at++ {
		arg := args[at]
		if arg == "--" {
			take := f.takeURL
			if t.more != nil && f.URL != "" {
				take = func(text string) error { return t.more(&f, text) }
			}
			for _, rest := range args[at+1:] {
				if err := take(rest); err != nil {
					return nil, err
				}
			}
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			if err := f.takeURL(arg); err != nil {
				return nil, err
			}
			continue
		}
		if arg == "--help" {
			f.Help = true
			break
		}
		rest, err := t.take(&f, arg, args[at+1:])
		if err != nil {
			return nil, err
		}
		at = len(args) - 1 - len(rest)
	}
	if f.Help || f.Version {
		return &f, nil
	}
	switch {
	case t.noURL && f.URL != "":
		return nil, fmt.Errorf("%s: it takes no arguments; targets are in a file (-targets) or on standard input", f.URL)
	case !t.noURL && f.URL == "":
		return nil, errors.New("the URL is missing")
	}
	if t.check != nil {
		return &f, t.check(&f)
	}
	return &f, nil
}

func (f *CommandLine) takeURL(text string) error {
	if f.URL != "" {
		return fmt.Errorf("%s: a second URL; give one", text)
	}
	f.URL = text
	return nil
}

// take reads the flags of one argument, and their value if that is the next; rest is what follows.
func (t *Tool) take(f *CommandLine, arg string, rest []string) ([]string, error) {
	name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	long := strings.HasPrefix(arg, "--") || t.single
	if o := t.option(name); long || o != nil && len(name) > 1 {
		if o == nil {
			return nil, fmt.Errorf("%s: %s has no such flag", arg, t.Name)
		}
		return o.apply(f, arg, value, given, rest)
	}
	for letters := strings.TrimLeft(arg, "-"); letters != ""; { // -t4, -c 100, -Lv
		o := t.option(letters[:1])
		if o == nil {
			return nil, fmt.Errorf("-%s: %s has no such flag", letters[:1], t.Name)
		}
		flag, more := "-"+letters[:1], letters[1:]
		if o.value != "" {
			return o.apply(f, flag, strings.TrimPrefix(more, "="), more != "", rest)
		}
		if _, err := o.apply(f, flag, "", false, nil); err != nil {
			return nil, err
		}
		letters = more
	}
	return rest, nil
}

// Options are its flags.
func (t *Tool) Options() []Option {
	if t.table == nil {
		t.table = t.options()
	}
	return t.table
}

func (t *Tool) option(name string) *Option {
	all := t.Options()
	at := slices.IndexFunc(all, func(o Option) bool { return slices.Contains(o.names, name) })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// apply sets a flag; its value may be the next argument.
func (o *Option) apply(f *CommandLine, as, value string, given bool, rest []string) ([]string, error) {
	switch {
	case o.set == nil:
		return nil, fmt.Errorf("%s: %s", as, o.differs)
	case o.value == "" && given && value != "true" && value != "false":
		return nil, fmt.Errorf("%s: it takes no value", as)
	case o.value == "" && !given:
		value = "true"
	case o.value != "" && !given && len(rest) == 0:
		return nil, fmt.Errorf("%s: its %s is missing", as, o.value)
	case o.value != "" && !given:
		value, rest = rest[0], rest[1:]
	}
	if o.value == "" && (value == "true") == o.on {
		return rest, nil // as it is already
	}
	if err := o.set(f, value); err != nil {
		return nil, fmt.Errorf("%s %s: %w", as, value, err)
	}
	return rest, nil
}

// HelpText lists the tool's flags, and which of them are not as there.
func (t *Tool) HelpText() string {
	var b strings.Builder
	url := " URL"
	if t.noURL {
		url = ""
	}
	fmt.Fprintf(&b, "%s\n\nUsage: ceiling %s [flags]%s\nExample:\n  ceiling %s\n\nFlags, as %[2]s has them:\n", t.Short, t.Name, url, t.Example)
	for _, o := range t.Options() {
		fmt.Fprintf(&b, "  %-34s %s\n", o.Written(t), o.Says())
	}
	return b.String()
}

// Written is a flag as one writes it.
func (o *Option) Written(t *Tool) string {
	var names []string
	for _, name := range o.names {
		dashes := "--"
		if len(name) == 1 || t.single {
			dashes = "-"
		}
		names = append(names, dashes+name)
	}
	return strings.TrimSpace(strings.Join(names, ", ") + " " + o.value)
}

// Says tells whether a flag does the same.
func (o *Option) Says() string {
	switch {
	case o.set == nil:
		return "refused: " + o.differs
	case o.differs == "":
		return "same"
	}
	return o.differs
}
