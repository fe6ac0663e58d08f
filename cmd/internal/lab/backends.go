package lab

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ceiling/cmd/internal/serving"
	"ceiling/server"
	"ceiling/server/backend"
	"ceiling/server/downstream"
	"ceiling/server/quorum"
	"ceiling/server/store"
)

// backends are what this program can put behind a server.
type backends struct {
	database             store.Backend
	downstream, keyValue string
}

func behind() serving.Behind {
	var b backends
	return serving.Behind{About: about(), Flags: b.flags, Complete: b.complete}
}

func (b *backends) flags(f *pflag.FlagSet) {
	d := &b.database
	f.StringVar(&d.Source, "db", "", "serve from a database: sqlite, sqlite:PATH, postgres or postgres://…")
	f.IntVar(&d.Pool, "db-pool", 10, "database connections per process")
	f.BoolVar(&d.Unprepared, "db-unprepared", false, "parse every statement each time")
	f.BoolVar(&d.Cached, "db-cached", false, "cache products in memory")
	f.BoolVar(&d.NoSync, "db-nosync", false, "commit without waiting for the disk")
	f.IntVar(&d.GroupSize, "db-group", 64, "writes per commit of /db/group")
	f.DurationVar(&d.GroupWait, "db-group-wait", 2*time.Millisecond, "maximum wait for them")
	f.StringVar(&b.downstream, "downstream", "", "call a failing service: own, or fail=1%,slow=5%:20ms,…")
	f.StringVar(&b.keyValue, "kv", "", "serve a replicated key-value bucket: own, or replicas=3,delay=1ms,…")
}

// complete checks the flags, and puts what they name behind the server.
func (b *backends) complete(f *pflag.FlagSet, cfg *server.Config, kind server.Kind) error {
	if err := b.completeDatabase(f, cfg, kind); err != nil {
		return err
	}
	if b.downstream != "" {
		if _, err := downstream.Parse(b.downstream); err != nil {
			return err
		}
		cfg.Behind = append(cfg.Behind, downstream.Backend(b.downstream))
	}
	if b.keyValue != "" {
		if _, err := quorum.Parse(b.keyValue); err != nil {
			return fmt.Errorf("--kv: %w", err)
		}
		cfg.Behind = append(cfg.Behind, quorum.Backend(b.keyValue))
	}
	for flag, value := range map[string]string{"--downstream": b.downstream, "--kv": b.keyValue} {
		if value != "" && (kind.Memory || cfg.Prefork) {
			return fmt.Errorf("%s goes with one process of nethttp, fasthttp or fiber", flag)
		}
	}
	return nil
}

func (b *backends) completeDatabase(f *pflag.FlagSet, cfg *server.Config, kind server.Kind) (err error) {
	d := &b.database
	f.Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "db-") && d.Source == "" {
			err = fmt.Errorf("--%s: it is for a server with a database; give --db sqlite or postgres as well, or remove it", f.Name)
		}
	})
	switch {
	case err != nil || d.Source == "":
		return err
	case kind.Memory:
		return fmt.Errorf("%s answers only from memory; remove --db, or choose another server", kind.Name)
	}
	if err := store.CheckSource(d.Source); err != nil {
		return fmt.Errorf("--db: %w", err)
	}
	cfg.Database = d
	return d.Options.Check()
}

// about lists the routes for the help text; docs/regimes.md describes each.
func about() string {
	var b strings.Builder
	b.WriteString("\nRoutes with a database, a key-value bucket or a failing service behind the server:\n")
	fmt.Fprintf(&b, "  --db          /db/: %s\n", below("/db/", store.Routes(nil)))
	fmt.Fprintf(&b, "                POST for insert, update, counter, group and async\n")
	for i, r := range quorum.Paths() {
		fmt.Fprintf(&b, "  %-13s %s  %s\n", []string{"--kv", ""}[min(i, 1)], r.Path, r.About)
	}
	fmt.Fprintf(&b, "  --downstream  /call/: %s\n", below("/call/", downstream.Routes(nil)))
	f := downstream.Standard()
	fmt.Fprintf(&b, "--downstream own is work=%v,slots=%d,fail=0%%,slow=0%%:%v,stall=0%%:%v,timeout=%v,outage=%v; set what should differ.\n",
		f.Work, f.Slots, f.SlowBy, f.StallFor, f.Timeout, f.Outage)
	return b.String()
}

// below returns the routes under a path, by backend.
func below(path string, routes []backend.Route) string {
	var names []string
	for _, r := range routes {
		names = append(names, strings.TrimPrefix(r.Path, path))
	}
	return strings.Join(names, ", ")
}
