package faces

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/show/face"
)

// vegetaAttack is what vegeta attack's command line says besides the load.
type vegetaAttack struct {
	name, output string
	rate         unit.Rate // 0: as fast as it goes
	workers      int       // at most; 0: not said
}

// vegetaFace is vegeta attack.
func vegetaFace() *Tool {
	rate, err := unit.ParseRate("50")
	if err != nil {
		panic(err) // a constant
	}
	return &Tool{
		Name: "vegeta attack", Short: "Measure as vegeta does: its flags and its output, the verdict on standard error", single: true, noURL: true, Hits: true,
		Example:  "vegeta attack -rate=1000 -duration=10s -targets=targets.txt | ceiling vegeta report",
		defaults: CommandLine{Own: []string{"--timeout", "30s", "--targets", "-"}, vegeta: vegetaAttack{rate: rate, output: "stdout"}},
		options:  func() []Option { return slices.Concat(vegetaAttackOptions(), vegetaNetOptions()) },
		check:    checkVegeta,
		Begin:    func(io.Writer, *face.Run, *CommandLine) error { return nil },
		End:      writeHits,
	}
}

// vegetaAttackOptions are those of the load and its result.
func vegetaAttackOptions() []Option {
	const standard = "stdin"
	text := func(set func(*CommandLine, string)) func(*CommandLine, string) error {
		return func(f *CommandLine, text string) error { set(f, text); return nil }
	}
	return []Option{
		{names: []string{"rate"}, value: "N/TIME", differs: "same: 50/1s where none is given; 0 is as fast as -max-workers allow", set: setVegetaRate},
		{names: []string{"duration"}, value: "TIME", differs: "same, but not for ever: it has to be given", set: timeIn(0, setDuration)},
		{names: []string{"targets"}, value: "FILE", set: text(func(f *CommandLine, file string) {
			if file == standard {
				file = "-"
			}
			f.put("--targets", file)
		})},
		{names: []string{"format"}, value: "http|json", differs: "same; the format is detected", set: func(_ *CommandLine, text string) error {
			if text != "http" && text != "json" {
				return errors.New("none of http, json")
			}
			return nil
		}},
		{names: []string{"name"}, value: "NAME", set: text(func(f *CommandLine, name string) { f.vegeta.name = name })},
		{names: []string{"output"}, value: "FILE", differs: "results made from histograms: latencies within 0.2%, spread evenly over each 100 ms",
			set: text(func(f *CommandLine, file string) { f.vegeta.output = file })},
		{names: []string{"header"}, value: "HEADER", set: pass("-H")},
	}
}

// vegetaNetOptions are those of connections.
func vegetaNetOptions() []Option {
	const noDNS = "names are looked up once, at the start; ceiling run --resolve sets an address"
	workers := func(f *CommandLine, text string) (err error) {
		f.vegeta.workers, err = whole(text)
		return err
	}
	return []Option{
		{names: []string{"timeout"}, value: "TIME", set: timeIn(0, setTimeout)},
		{names: []string{"workers"}, value: "N", differs: "ignored: ceiling has no workers", set: workersIgnored},
		{names: []string{"max-workers"}, value: "N", differs: "connections: a hundredth of the rate where none are given, 64 to 10,000", set: workers},
		{names: []string{"connections"}, value: "N", differs: "ignored: ceiling keeps every connection open", set: workersIgnored},
		{names: []string{"max-connections"}, value: "N", set: workers},
		{names: []string{"keepalive"}, on: true, set: on("--new-connections")},
		{names: []string{"http2"}, on: true, set: over(spec.HTTP11)},
		{names: []string{"h2c"}, set: over(spec.HTTP2)},
		{names: []string{"insecure"}, set: on("--insecure")},
		{names: []string{"cert"}, value: "FILE", set: pass("--cert")},
		{names: []string{"key"}, value: "FILE", set: pass("--key")},
		{names: []string{"root-certs"}, value: "FILE", differs: "same: one file", set: pass("--cacert")},
		{names: []string{"session-tickets"}, set: on("--tls-resume")},
		{names: []string{"laddr"}, value: "IP", set: pass("--source-ips")},
		{names: []string{"unix-socket"}, value: "PATH", set: pass("--unix")},
		{names: []string{"max-body"}, value: "N", differs: "ignored: bodies are read and not kept", set: ignored},
		{names: []string{"lazy"}, differs: "targets are read before the run, which ends with its duration", set: ignored},
		{names: []string{"redirects"}, value: "N", differs: "ceiling follows none: a redirect is a response", set: ignored},
		{names: []string{"body"}, value: "FILE", differs: "give each target its own: a line @FILE below it"},
		{names: []string{"chunked"}, set: func(f *CommandLine, _ string) error { return pass("-H")(f, "Transfer-Encoding: chunked") }},
		{names: []string{"connect-to"}, value: "A:B", differs: noDNS},
		{names: []string{"dns-ttl"}, value: "TIME", differs: noDNS},
		{names: []string{"resolvers"}, value: "IP", differs: noDNS},
		{names: []string{"proxy-header"}, value: "HEADER", differs: "ceiling uses no proxy"},
		{names: []string{"prometheus-addr"}, value: "ADDR", differs: "ceiling run --prometheus ADDR has these metrics"},
		{names: []string{"h", "help"}, set: askHelp},
	}
}

func workersIgnored(_ *CommandLine, text string) error {
	_, err := whole(text)
	return err
}

func setVegetaRate(f *CommandLine, text string) error {
	if text == "0" || text == "infinity" {
		f.vegeta.rate = unit.Rate{}
		return nil
	}
	return f.vegeta.rate.UnmarshalText([]byte(text))
}

// checkVegeta adds what follows from all flags together: the rate, and connections for it.
func checkVegeta(f *CommandLine) error {
	if f.Duration == 0 {
		return errors.New("-duration: without it vegeta runs forever; give one, as in -duration=30s")
	}
	perS := f.vegeta.rate.PerSecond()
	if perS == 0 {
		if f.vegeta.workers == 0 {
			return errors.New("-rate=0 requires setting -max-workers")
		}
		f.Own = append(f.Own, "-c", strconv.Itoa(f.vegeta.workers))
		return nil
	}
	connections := max(64, min(int(perS/100), 10_000))
	if f.vegeta.workers > 0 {
		connections = min(connections, f.vegeta.workers)
	}
	f.Own = append(f.Own, "-R", f.vegeta.rate.String(), "-c", strconv.Itoa(connections))
	return nil
}

// output opens a file of results or of a report; done closes it.
func output(name string, stdout io.Writer) (w *bufio.Writer, done func() error, err error) {
	if name == "stdout" || name == "-" {
		w = bufio.NewWriterSize(stdout, 1<<16)
		return w, w.Flush, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, nil, fmt.Errorf("-output: %w", err)
	}
	w = bufio.NewWriterSize(file, 1<<16)
	return w, func() error { return errors.Join(w.Flush(), file.Close()) }, nil
}

// writeHits writes a run's results as vegeta attack does.
func writeHits(stdout io.Writer, r *face.Run, f *CommandLine) error {
	w, done, err := output(f.vegeta.output, stdout)
	if err != nil {
		return err
	}
	encode, err := face.Encoder(w, "gob")
	if err == nil {
		err = r.Hits.Each(r, f.vegeta.name, encode)
	}
	return errors.Join(err, done())
}
