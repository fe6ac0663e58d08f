package faces

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"ceiling/show/face"
)

func autocannonFace() *Tool {
	return &Tool{
		Name: "autocannon", Short: "Measure as autocannon does: its flags and its output, the verdict on standard error", Aside: true,
		Example:  "autocannon -c 100 -p 10 -d 30 http://127.0.0.1:8080/read",
		defaults: CommandLine{Own: []string{"-c", "10", "-d", "10s", "--timeout", "10s"}, connections: "10", Duration: 10 * time.Second},
		options:  autocannonOptions,
		Begin:    func(w io.Writer, r *face.Run, f *CommandLine) error { return face.AutocannonBegin(w, r, &f.cannon) },
		End: func(w io.Writer, r *face.Run, f *CommandLine) error {
			if f.JSON {
				return face.AutocannonJSON(w, r, &f.cannon)
			}
			return face.AutocannonEnd(w, r, &f.cannon)
		},
	}
}

func autocannonOptions() []Option {
	header := func(f *CommandLine, text string) error {
		at := strings.IndexAny(text, ":=")
		if at < 1 {
			return errors.New("not a header, as in Name=value")
		}
		return pass("-H")(f, text[:at]+": "+strings.TrimSpace(text[at+1:]))
	}
	flag := func(set func(*CommandLine)) func(*CommandLine, string) error {
		return func(f *CommandLine, _ string) error { set(f); return nil }
	}
	return []Option{
		{names: []string{"c", "connections"}, value: "NUM", set: setConnections},
		{names: []string{"p", "pipelining"}, value: "NUM", set: pass("-p")},
		{names: []string{"d", "duration"}, value: "SEC", set: timeIn(time.Second, setDuration)},
		{names: []string{"a", "amount"}, value: "NUM", set: func(f *CommandLine, text string) error {
			f.Own = append(f.Own, "-n", text, "-d", "1h")
			return nil
		}},
		{names: []string{"O", "maxOverallRequests"}, value: "NUM", set: pass("-n")},
		{names: []string{"t", "timeout"}, value: "SEC", set: timeIn(time.Second, setTimeout)},
		{names: []string{"w", "workers"}, value: "NUM", differs: "generator threads, at most one per CPU", set: func(f *CommandLine, text string) (err error) {
			if f.cannon.Workers, err = whole(text); err == nil {
				err = pass("-t")(f, strconv.Itoa(f.cannon.Workers))
			}
			return err
		}},
		{names: []string{"m", "method"}, value: "METHOD", set: pass("-m")},
		{names: []string{"H", "headers", "header"}, value: "K=V", set: header},
		{names: []string{"b", "body"}, value: "BODY", set: pass("-b")},
		{names: []string{"i", "input"}, value: "FILE", set: func(f *CommandLine, text string) error { return pass("-b")(f, "@"+text) }},
		{names: []string{"R", "overallRate"}, value: "NUM", set: pass("-R")},
		{names: []string{"s", "servername"}, value: "NAME", set: pass("--sni")},
		{names: []string{"S", "socketPath"}, value: "PATH", set: pass("--unix")},
		{names: []string{"cert"}, value: "FILE", set: pass("--cert")},
		{names: []string{"key"}, value: "FILE", set: pass("--key")},
		{names: []string{"ca"}, value: "FILE", set: pass("--cacert")},
		{names: []string{"T", "title"}, value: "TITLE", set: func(f *CommandLine, text string) error { f.cannon.Title = text; return nil }},
		{names: []string{"l", "latency", "renderLatencyTable"}, set: flag(func(f *CommandLine) { f.cannon.Table = true })},
		{names: []string{"j", "json"}, set: flag(func(f *CommandLine) { f.JSON = true })},
		{names: []string{"n", "no-progress"}, differs: "same: no tables; ceiling draws no bar", set: flag(func(f *CommandLine) { f.cannon.Quiet = true })},
		{names: []string{"renderStatusCodes", "statusCodes"}, set: flag(func(f *CommandLine) { f.cannon.Statuses = true })},
		{names: []string{"progress", "renderProgressBar"}, differs: "ceiling draws no bar", set: ignored},
		{names: []string{"C", "ignoreCoordinatedOmission"}, differs: "as without it: with -R times count from when a request was due"},
		{names: []string{"r", "connectionRate"}, value: "NUM", differs: "give the rate of all connections: -R"},
		{names: []string{"M", "maxConnectionRequests"}, value: "NUM", differs: "it bounds the requests of each connection: give the bound of all, -O"},
		{names: []string{"D", "reconnectRate"}, value: "NUM", set: func(f *CommandLine, text string) error {
			f.Own = append(f.Own, "--new-connections="+text)
			return nil
		}},
		{names: []string{"B", "bailout"}, value: "NUM", differs: "a run continues to its end, and its errors are in the result"},
		{names: []string{"L", "sampleInt"}, value: "MS", differs: "samples are of a second"},
		{names: []string{"x", "excludeErrorStats"}, differs: "all responses count; ceiling run --expect says which are errors"},
		{names: []string{"E", "expectBody"}, value: "BODY", set: func(f *CommandLine, text string) error {
			quoted, err := json.Marshal(text)
			return errors.Join(err, pass("--expect")(f, "body == "+string(quoted)))
		}},
		{names: []string{"I", "idReplacement"}, differs: "requests are prepared before the run, and have no separate IDs"},
		{names: []string{"F", "form"}, value: "FORM", differs: "give the body as it is sent: -i FILE, and -H Content-Type=…"},
		{names: []string{"har"}, value: "FILE", differs: "ceiling run --targets FILE reads it"},
		{names: []string{"W", "warmup"}, value: "OPTS", differs: "ceiling run has a warm-up, --warmup 2s"},
		{names: []string{"f", "forever"}, differs: "one run at a time; repeat it in your shell"},
		{names: []string{"on-port", "onPort"}, differs: "start the server yourself, or ceiling run FILE.yaml with serve: (docs/experiments.md)"},
		{names: []string{"debug"}, set: ignored},
		{names: []string{"v", "version"}, set: askVersion},
		{names: []string{"h", "help"}, set: askHelp},
	}
}
