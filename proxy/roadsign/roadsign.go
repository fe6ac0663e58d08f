// Package roadsign serves RoadSign's API on the admin address, /cgi and /webhooks, so that
// RoadSign's own client can log in, deploy, sync, list and reload. Names and JSON are
// RoadSign's; what changes something goes through packages publish and apps.
package roadsign

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"ceiling/proxy"
	"ceiling/proxy/apps"
	"ceiling/proxy/config"
	"ceiling/proxy/publish"
)

// API is RoadSign's interface to a proxy.
type API struct {
	Operator   *proxy.Operator
	Config     func() *config.Config
	Supervisor *apps.Supervisor
	Publisher  *publish.Publisher
	Began      time.Time // of the proxy
}

// Handle adds the API to the admin address.
func (a *API) Handle(mux *http.ServeMux) {
	own := http.NewServeMux()
	add := func(pattern string, f func(http.ResponseWriter, *http.Request) error) {
		own.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				publish.Respond(w, err)
			}
		})
	}
	add("GET /cgi/metadata", a.metadata)
	add("GET /cgi/traffic", a.traffic)
	add("GET /cgi/traces", a.traces)
	add("GET /cgi/stats", a.stats)
	add("GET /cgi/regions", a.regions)
	add("GET /cgi/regions/cfg/{id}", a.regionFile)
	add("GET /cgi/applications", a.applications)
	add("GET /cgi/applications/{id}/logs", a.logs)
	add("POST /cgi/applications/{id}/start", a.change(a.start))
	add("POST /cgi/applications/{id}/stop", a.change(a.Supervisor.Stop))
	add("POST /cgi/applications/{id}/restart", a.change(a.Supervisor.Restart))
	add("POST /cgi/reload", a.reload)
	own.HandleFunc("PUT /webhooks/publish/{site}/{slug}", func(w http.ResponseWriter, r *http.Request) {
		a.Publisher.Exclusive(w, r, func(r *http.Request) error { return done(w, a.deploy(r)) })
	})
	own.HandleFunc("PUT /webhooks/sync/{slug}", func(w http.ResponseWriter, r *http.Request) {
		a.Publisher.Exclusive(w, r, func(r *http.Request) error { return done(w, a.sync(r)) })
	})
	protected := a.protect(own)
	mux.Handle("/cgi/", protected)
	mux.Handle("/webhooks/", protected)
}

// protect requires the credential as the password of Basic authentication, with any user name.
// Browsers send such passwords for the pages of other sites too, hence the protection from those.
func (a *API) protect(next http.Handler) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.Operator.NeedsCredential() {
			http.Error(w, `this API needs a password: set credential = "…" in [security] of the proxy's file, and reload it`, http.StatusForbidden)
			return
		}
		if _, password, basic := r.BasicAuth(); !basic || !a.Operator.Accepts(password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="ceiling proxy", charset="UTF-8"`)
			http.Error(w, "wrong password: the credential in [security] of the proxy's file is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

// done responds as RoadSign does when nothing but success is to be said.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		_, _ = w.Write([]byte("OK")) // it fails if the client has left
	}
	return err
}

func respond(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // it fails if the client has left
	return nil
}

func (a *API) metadata(w http.ResponseWriter, _ *http.Request) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return respond(w, map[string]string{"server": "ceiling proxy", "version": version})
}

// choice reads a parameter that is true or false.
func choice(r *http.Request, name string, otherwise bool) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, publish.Refuse(http.StatusBadRequest, "%s=%s: true and false are possible", name, text)
	}
	return v, nil
}

// reload rereads the file. With warden, all applications are restarted too.
func (a *API) reload(w http.ResponseWriter, r *http.Request) error {
	warden, err := choice(r, "warden", false)
	if err != nil {
		return err
	}
	if err := a.Operator.Reload(); err != nil {
		return publish.Refuse(http.StatusUnprocessableEntity, "the old configuration stays:\n%w", err)
	}
	if warden {
		for _, s := range a.Supervisor.Status() {
			err = errors.Join(err, a.Supervisor.Restart(s.ID))
		}
	}
	return done(w, err)
}

// sync writes a region's file.
func (a *API) sync(r *http.Request) error {
	if err := a.needRegions(); err != nil {
		return err
	}
	text, err := read(r.Body, mostRegion)
	if err != nil {
		return err
	}
	return a.Publisher.Region(r.PathValue("slug")+".toml", text)
}

// regionFile returns a region's file unchanged, for the client to edit and sync.
func (a *API) regionFile(w http.ResponseWriter, r *http.Request) error {
	if err := a.needRegions(); err != nil {
		return err
	}
	file, err := a.Publisher.RegionFile(r.PathValue("id") + ".toml")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return publish.Refuse(http.StatusNotFound, "no file %s", file)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/toml")
	_, _ = w.Write(text) // it fails if the client has left
	return nil
}

func (a *API) needRegions() error {
	if a.Config().Publish.Regions == "" {
		return publish.Refuse(http.StatusNotImplemented, "no directory for region files: name one in [paths] configs of the proxy's file")
	}
	return nil
}

func (a *API) change(f func(id string) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := r.PathValue("id")
		if _, err := a.state(id); err != nil {
			return err
		}
		return done(w, f(id))
	}
}

// start starts an application that is stopped, or is waiting for its restart.
func (a *API) start(id string) error {
	state, err := a.state(id)
	if err == nil && state != apps.Running && state != apps.Starting {
		err = a.Supervisor.Restart(id)
	}
	return err
}

// state returns an application's state.
func (a *API) state(id string) (string, error) {
	all := a.Supervisor.Status()
	i := slices.IndexFunc(all, func(s apps.Status) bool { return s.ID == id })
	if i < 0 {
		return "", publish.Refuse(http.StatusNotFound, "unknown application %q", id)
	}
	return all[i].State, nil
}

func (a *API) logs(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if _, err := a.state(id); err != nil {
		return err
	}
	text, err := a.Supervisor.Output(id)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text)) // it fails if the client has left
	return nil
}
