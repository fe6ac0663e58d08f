package faces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"ceiling/cmd/internal/command"
	"ceiling/show/face"
)

// Reading is vegeta report, or vegeta encode.
type Reading struct {
	verb, as, output string
	buckets          []time.Duration
	files            []string
}

// NewReading reads the command line of one of them.
func NewReading(verb string, args []string) (*Reading, error) {
	o := &Reading{verb: verb, as: "text", output: "stdout"}
	if verb == "encode" {
		o.as = "json"
	}
	for at := 0; at < len(args); at++ {
		name, value, given := strings.Cut(strings.TrimLeft(args[at], "-"), "=")
		if !strings.HasPrefix(args[at], "-") || args[at] == "-" {
			o.files = append(o.files, args[at])
			continue
		}
		if !given {
			if at++; at == len(args) {
				return nil, fmt.Errorf("vegeta %s: -%s: its value is missing", verb, name)
			}
			value = args[at]
		}
		switch {
		case name == "output":
			o.output = value
		case name == "type" && verb == "report", name == "to" && verb == "encode":
			o.as = value
		case name == "buckets" && verb == "report":
			o.buckets, given = nil, true
			if err := o.bounds(value); err != nil {
				return nil, err
			}
		case name == "every" && verb == "report" && (value == "0" || value == "0s"):
		default:
			return nil, fmt.Errorf("vegeta %s: -%s: refused; it takes -type, -to, -buckets and -output as vegeta does, and no -every", verb, name)
		}
	}
	if bounds, is := strings.CutPrefix(o.as, "hist"); is {
		o.as = "hist"
		if bounds != "" {
			return o, o.bounds(bounds)
		}
	}
	return o, nil
}

// bounds reads [0,10ms,100ms].
func (o *Reading) bounds(text string) error {
	for part := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
		d, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil || d < 0 || len(o.buckets) > 0 && d <= o.buckets[len(o.buckets)-1] {
			return fmt.Errorf("vegeta report: %s: bounds are ascending times, as in [0,10ms,100ms]", text)
		}
		o.buckets = append(o.buckets, d)
	}
	return nil
}

// Do reads the results and writes the report, or the results in another format.
func (o *Reading) Do(_ context.Context, sh *command.Shell) (err error) {
	w, done, err := output(o.output, sh.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	take, metrics := (func(*face.Result) error)(nil), face.NewMetrics(o.buckets)
	if take = metrics.Add; o.verb == "encode" {
		if take, err = face.Encoder(w, o.as); err != nil {
			return command.Usage(fmt.Errorf("vegeta encode: -to: %w", err))
		}
	}
	if len(o.files) == 0 {
		o.files = []string{"-"}
	}
	for _, name := range o.files {
		in := io.NopCloser(sh.Stdin)
		if name != "-" && name != "stdin" {
			if in, err = os.Open(name); err != nil {
				return err
			}
		}
		err = face.ReadResults(in, take)
		if err = errors.Join(err, in.Close()); err != nil {
			return fmt.Errorf("vegeta %s: %s: %w", o.verb, name, err)
		}
	}
	if o.verb == "report" {
		return metrics.Report(w, o.as)
	}
	return nil
}
