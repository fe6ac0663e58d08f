package roadsign

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"time"

	"ceiling/internal/secret"
	"ceiling/proxy"
	"ceiling/proxy/apps"
	"ceiling/proxy/config"
	"ceiling/proxy/publish"
)

// region, location, destination and application have RoadSign's keys. A client reads lists
// without looking whether they are there, so none is null.
type region struct {
	ID           string        `json:"id"`
	Disabled     bool          `json:"disabled"`
	Locations    []location    `json:"locations"`
	Applications []application `json:"applications"`
}

type location struct {
	ID           string              `json:"id"`
	Hosts        []string            `json:"hosts"`
	Paths        []string            `json:"paths"`
	Queries      map[string]string   `json:"queries"`
	Headers      map[string][]string `json:"headers"`
	Destinations []destination       `json:"destinations"`
}

type destination struct {
	ID           string           `json:"id"`
	URI          string           `json:"uri"`
	Helmet       map[string]any   `json:"helmet"`
	Transformers []map[string]any `json:"transformers"`
}

type application struct {
	ID          string   `json:"id"`
	Workdir     string   `json:"workdir"`
	Command     []string `json:"command"`
	Environment []string `json:"environment"`
}

// The values of a status in RoadSign.
const (
	appCreated = iota
	appStarting
	appStarted
	appExited
	appFailed
)

// statusOf translates an application's state.
func statusOf(state string) int {
	switch state {
	case apps.Starting:
		return appStarting
	case apps.Running:
		return appStarted
	case apps.Stopped:
		return appExited
	case apps.Waiting:
		return appFailed
	}
	return appCreated
}

func (a *API) applications(w http.ResponseWriter, _ *http.Request) error {
	states := map[string]string{}
	for _, s := range a.Supervisor.Status() {
		states[s.ID] = s.State
	}
	type entry struct {
		application
		Status int `json:"status"`
	}
	list := []entry{}
	for _, r := range a.Config().Regions {
		for _, one := range r.Applications {
			list = append(list, entry{applicationOf(one), statusOf(states[one.ID])})
		}
	}
	return respond(w, list)
}

// applicationOf describes an application without its secrets.
func applicationOf(a config.Application) application {
	return application{a.ID, a.Workdir, secret.Plain().Command(filled(a.Command)), secret.Plain().Variables(filled(a.Environment))}
}

func (a *API) regions(w http.ResponseWriter, _ *http.Request) error {
	list := []region{}
	for _, r := range a.Config().Regions {
		one := region{r.ID, r.Disabled, []location{}, []application{}}
		for i := range r.Locations {
			one.Locations = append(one.Locations, locationOf(&r.Locations[i]))
		}
		for _, app := range r.Applications {
			one.Applications = append(one.Applications, applicationOf(app))
		}
		list = append(list, one)
	}
	return respond(w, list)
}

// locationOf describes a location without its secrets.
func locationOf(l *config.Location) location {
	one := location{l.ID, filled(l.Hosts), filled(l.Paths), map[string]string{}, map[string][]string{}, []destination{}}
	for name, value := range l.Queries {
		if secret.InName(name) {
			value = secret.Plain().Value(value)
		}
		one.Queries[name] = value
	}
	for name, values := range l.Headers {
		one.Headers[name] = []string{}
		for _, v := range values {
			one.Headers[name] = append(one.Headers[name], secret.Plain().Field(name, v))
		}
	}
	for i := range l.Destinations {
		one.Destinations = append(one.Destinations, destinationOf(&l.Destinations[i]))
	}
	return one
}

func destinationOf(d *config.Destination) destination {
	one := destination{ID: d.ID, URI: secret.Plain().URL(d.URI), Transformers: []map[string]any{}}
	if d.Helmet != nil {
		one.Helmet = keyed(*d.Helmet)
	}
	for _, t := range d.Transformers {
		one.Transformers = append(one.Transformers, map[string]any{"type": t.Type, "options": keyed(t.Options)})
	}
	return one
}

// keyed returns a struct's values by their keys in the file, which are RoadSign's in JSON too.
func keyed(of any) map[string]any {
	v, values := reflect.ValueOf(of), map[string]any{}
	for i := range v.NumField() {
		values[v.Type().Field(i).Tag.Get("toml")] = v.Field(i).Interface()
	}
	return values
}

// filled returns an empty list for none.
func filled(list []string) []string { return append([]string{}, list...) }

func (a *API) stats(w http.ResponseWriter, _ *http.Request) error {
	s, err := a.snapshot()
	if err != nil {
		return err
	}
	regions := a.Config().Regions
	locations, destinations, applications := 0, 0, 0
	for _, r := range regions {
		locations += len(r.Locations)
		applications += len(r.Applications)
		for i := range r.Locations {
			destinations += len(r.Locations[i].Destinations)
		}
	}
	return respond(w, map[string]any{
		"regions": len(regions), "locations": locations, "destinations": destinations, "applications": applications,
		"uptime": time.Since(a.Began).Milliseconds(), "traffic": map[string]uint64{"total": s.Counters["requests_total"]},
	})
}

// traffic has no requests by region, which the proxy does not count.
func (a *API) traffic(w http.ResponseWriter, _ *http.Request) error {
	s, err := a.snapshot()
	if err != nil {
		return err
	}
	return respond(w, map[string]any{"traffic": map[string]uint64{}, "total_traffic": s.Counters["requests_total"], "startup_at": a.Began})
}

func (a *API) snapshot() (*proxy.Snapshot, error) {
	s, err := a.Operator.Snapshot()
	if err != nil {
		err = publish.Refuse(http.StatusServiceUnavailable, "%w", err)
	}
	return s, err
}

// trace is one of the last requests.
type trace struct {
	Timestamp   time.Time  `json:"timestamp"`
	Region      string     `json:"region"`
	Location    string     `json:"location"`
	Destination string     `json:"destination"`
	URI         string     `json:"uri"`
	Address     string     `json:"ip_address"`
	UserAgent   string     `json:"user_agent"`
	Error       traceError `json:"error"`
}

type traceError struct {
	IsNull  bool   `json:"is_null"`
	Message string `json:"message"`
}

// traces returns the last requests, oldest first.
func (a *API) traces(w http.ResponseWriter, _ *http.Request) error {
	lines, err := a.Operator.Traces()
	if err != nil {
		return publish.Refuse(http.StatusServiceUnavailable, "%w", err)
	}
	list := []trace{}
	for _, line := range slices.Backward(lines) {
		var t struct {
			Time                                  time.Time
			Client, Host, Target, Error, Location string
			Destination                           string
			UserAgent                             string `json:"user_agent"`
		}
		if err := json.Unmarshal(line.Line, &t); err != nil {
			return err
		}
		uri := t.Target
		if len(uri) > 0 && uri[0] == '/' {
			uri = "//" + t.Host + uri // the scheme is not in a trace
		}
		list = append(list, trace{t.Time, a.regionOf(t.Location), t.Location, t.Destination, uri, t.Client, t.UserAgent,
			traceError{t.Error == "", t.Error}})
	}
	return respond(w, list)
}

// regionOf returns the region that has a location; "" if none, or several.
func (a *API) regionOf(location string) (id string) {
	found := 0
	for _, r := range a.Config().Regions {
		if slices.ContainsFunc(r.Locations, func(l config.Location) bool { return l.ID == location }) {
			id = r.ID
			found++
		}
	}
	if found != 1 {
		return ""
	}
	return id
}
