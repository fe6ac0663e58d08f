package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"ceiling/cmd/internal/command"
	"ceiling/measure/run"
	"ceiling/show/export"
)

// telemetryFlags choose where to export metrics during a run.
type telemetryFlags struct{ prometheus, otlp string }

func (f *telemetryFlags) bind(p flagSet) {
	p.StringVar(&f.prometheus, "prometheus", "", "serve /metrics at this address during the run, e.g. :9464")
	p.StringVar(&f.otlp, "otlp", "", "send metrics to this OpenTelemetry collector URL during the run")
}

// telemetry exports to Prometheus and a collector; nil exports nothing.
type telemetry struct {
	host   string
	live   *export.Live
	server *export.Server
	pusher *export.Pusher
}

// closeTelemetry limits the duration of a scrape in progress at the end.
const closeTelemetry = 2 * time.Second

// check refuses a collector's URL that is none.
func (f *telemetryFlags) check() error {
	if f.otlp == "" {
		return nil
	}
	if err := (&export.Collector{URL: f.otlp}).Check(); err != nil {
		return fmt.Errorf("--otlp: %w", err)
	}
	return nil
}

// start opens the configured exports.
func (f *telemetryFlags) start(sh *shell) (*telemetry, error) {
	if f.prometheus == "" && f.otlp == "" {
		return nil, nil
	}
	host, _ := os.Hostname() // "" if the host has none
	t := &telemetry{host: host, live: export.NewLive(export.Identity{Version: command.Version(), Host: host})}
	if f.otlp != "" {
		var err error
		if t.pusher, err = export.StartPush(export.Collector{URL: f.otlp}, t.live); err != nil {
			return nil, command.Usage(fmt.Errorf("--otlp: %w", err))
		}
	}
	if f.prometheus != "" {
		var err error
		if t.server, err = export.Serve(f.prometheus, t.live); err != nil {
			t.close(sh)
			return nil, command.Usage(fmt.Errorf("--prometheus: %w", err))
		}
		fmt.Fprintf(sh.Stderr, "metrics at http://%s/metrics\n", t.server.Addr)
	}
	return t, nil
}

// listen adds the exports to the run's listeners.
func (t *telemetry) listen(o *run.Options) {
	if t == nil {
		return
	}
	o.Listen(func(e run.Event) {
		switch {
		case e.Progress != nil:
			t.live.Feed(e.Progress.Row)
		case e.Began != nil:
			s := e.Began
			id := export.Identity{Run: s.ID, Target: s.Spec.Targets[0].URL, Mode: "closed", Counts: s.Spec.Kind.Many(),
				Version: command.Version(), Host: t.host}
			if s.Spec.Open() {
				id.Mode = "open"
			}
			t.live.Begin(id)
		}
	})
}

// close sends the last metrics and reports what could not be sent.
func (t *telemetry) close(sh *shell) {
	if t == nil {
		return
	}
	t.live.Finish()
	if t.pusher != nil {
		if pushed := t.pusher.Close(); pushed.String() != "" {
			fmt.Fprintln(sh.Stderr, "ceiling: "+pushed.String())
		}
	}
	if t.server != nil {
		ctx, stop := context.WithTimeout(context.Background(), closeTelemetry)
		defer stop()
		if err := t.server.Close(ctx); err != nil {
			fmt.Fprintf(sh.Stderr, "ceiling: close --prometheus: %s\n", command.OneLine(err))
		}
	}
}
