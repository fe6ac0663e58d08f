package faces

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/show/face"
)

// pass hands a value to a flag of ceiling run.
func pass(flag string) func(*CommandLine, string) error {
	return func(f *CommandLine, text string) error {
		f.put(flag, text)
		return nil
	}
}

// put sets a flag of ceiling run, in place of what it had; fields add up.
func (f *CommandLine) put(flag, text string) {
	if at := slices.Index(f.Own, flag); at >= 0 && flag != "-H" {
		f.Own = slices.Delete(f.Own, at, at+2)
	}
	f.Own = append(f.Own, flag, text)
}

// on sets a switch of ceiling run.
func on(flag string) func(*CommandLine, string) error {
	return func(f *CommandLine, _ string) error {
		f.Own = append(f.Own, flag)
		return nil
	}
}

// over sets the version of HTTP.
func over(version string) func(*CommandLine, string) error {
	return func(f *CommandLine, _ string) error { return pass("--http")(f, version) }
}

func ignored(*CommandLine, string) error { return nil }

func askHelp(f *CommandLine, _ string) error {
	f.Help = true
	return nil
}

func askVersion(f *CommandLine, _ string) error {
	f.Version = true
	return nil
}

func setConnections(f *CommandLine, text string) error {
	f.connections = text
	return pass("-c")(f, text)
}

// whole reads a number of 1 or more; units are allowed where the tool has them.
func whole(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.New("not a whole number of 1 or more")
	}
	return n, nil
}

// timeIn makes a flag of a number of units, or of a text with a unit of its own; unit 0: it has to
// have one.
func timeIn(unit time.Duration, set func(f *CommandLine, d time.Duration)) func(*CommandLine, string) error {
	return func(f *CommandLine, text string) error {
		d, err := time.ParseDuration(text)
		if n, bare := strconv.ParseFloat(text, 64); bare == nil && unit > 0 {
			d, err = time.Duration(n*float64(unit)), nil
		}
		if err != nil || d <= 0 {
			return errors.New("not a time, as in 10s")
		}
		set(f, d)
		return nil
	}
}

func setDuration(f *CommandLine, d time.Duration) {
	f.Duration = d
	f.put("-d", d.String())
}

func setTimeout(f *CommandLine, d time.Duration) { f.put("--timeout", d.String()) }

func wrkFace() *Tool {
	threads := func(f *CommandLine, text string) (err error) {
		if f.Threads, err = whole(text); err == nil {
			err = pass("-t")(f, text)
		}
		return err
	}
	return &Tool{
		Name: "wrk", Short: "Measure as wrk does: its flags and its output, the verdict on standard error",
		Example:  "wrk -t2 -c100 -d30s --latency http://127.0.0.1:8080/read",
		defaults: CommandLine{Own: []string{"-c", "10", "-d", "10s", "--timeout", "2s"}, connections: "10", Threads: 2, Duration: 10 * time.Second},
		options: func() []Option {
			return []Option{
				{names: []string{"c", "connections"}, value: "N", set: setConnections},
				{names: []string{"d", "duration"}, value: "T", set: timeIn(time.Second, setDuration)},
				{names: []string{"t", "threads"}, value: "N", differs: "same; without it ceiling chooses, and two are printed", set: threads},
				{names: []string{"H", "header"}, value: "H", set: pass("-H")},
				{names: []string{"L", "latency"}, differs: "same; not corrected for coordinated omission afterwards, as wrk does: the load is closed",
					set: func(f *CommandLine, _ string) error { f.latency = true; return nil }},
				{names: []string{"T", "timeout"}, value: "T", differs: "same; the request fails then, which wrk only counts", set: timeIn(time.Second, setTimeout)},
				{names: []string{"s", "script"}, value: "S", differs: "same, with Lua 5.1 (gopher-lua) in place of LuaJIT: no ffi, no bit; on another thread than the loop, so that response() is seen a little later; os.execute is off, and done() has no rates of the threads", set: pass("--lua")},
				{names: []string{"v", "version"}, set: askVersion},
				{names: []string{"h", "help"}, set: askHelp},
			}
		},
		more: func(f *CommandLine, text string) error { // of the script's init
			f.Own = append(f.Own, "--lua-arg="+text)
			return nil
		},
		check: func(f *CommandLine) error {
			if !strings.Contains(f.URL, "://") {
				return fmt.Errorf("invalid URL: %s; wrk wants http:// before it", f.URL)
			}
			if n, err := strconv.Atoi(f.connections); err == nil && n < f.Threads {
				return errors.New("number of connections must be >= threads")
			}
			return nil
		},
		Begin: func(w io.Writer, r *face.Run, _ *CommandLine) error { return face.WrkBegin(w, r) },
		End:   func(w io.Writer, r *face.Run, f *CommandLine) error { return face.WrkEnd(w, r, f.latency) },
	}
}

func goWrkFace() *Tool {
	return &Tool{
		Name: "go-wrk", Short: "Measure as go-wrk does: its flags and its output, the verdict on standard error", single: true,
		Example: "go-wrk -c 60 -d 30 http://127.0.0.1:8080/read",
		defaults: CommandLine{Own: []string{"-c", "10", "-d", "10s", "--timeout", "1s", "-H", "User-Agent: go-wrk"}, connections: "10",
			Duration: 10 * time.Second},
		options: func() []Option {
			return []Option{
				{names: []string{"c"}, value: "N", differs: "same: connections, a request at a time on each", set: setConnections},
				{names: []string{"d"}, value: "SECONDS", set: timeIn(time.Second, setDuration)},
				{names: []string{"T"}, value: "MS", set: timeIn(time.Millisecond, setTimeout)},
				{names: []string{"M"}, value: "METHOD", set: pass("-m")},
				{names: []string{"H"}, value: "HEADER", set: pass("-H")},
				{names: []string{"host"}, value: "HOST", set: func(f *CommandLine, text string) error { return pass("-H")(f, "Host: "+text) }},
				{names: []string{"body"}, value: "TEXT", differs: "same: a text, or @file", set: pass("-b")},
				{names: []string{"no-ka"}, set: on("--new-connections")},
				{names: []string{"no-vr"}, set: on("--insecure")},
				{names: []string{"ca"}, value: "FILE", set: pass("--cacert")},
				{names: []string{"cert"}, value: "FILE", set: pass("--cert")},
				{names: []string{"key"}, value: "FILE", set: pass("--key")},
				{names: []string{"cpus"}, value: "N", set: pass("-t")},
				{names: []string{"http"}, differs: "same: over TLS the server chooses", set: ignored},
				{names: []string{"no-c"}, differs: "without it go-wrk asks for gzip; ceiling asks for nothing, unless -H 'Accept-Encoding: gzip'", set: ignored},
				{names: []string{"redir"}, differs: "followed once, before the run", set: on("--location")},
				{names: []string{"f"}, value: "FILE", differs: "a file with the URL; give the URL"},
				{names: []string{"v"}, set: askVersion},
				{names: []string{"help"}, set: askHelp},
			}
		},
		Begin: func(w io.Writer, r *face.Run, _ *CommandLine) error { return face.GoWrkBegin(w, r) },
		End:   func(w io.Writer, r *face.Run, _ *CommandLine) error { return face.GoWrkEnd(w, r) },
	}
}
