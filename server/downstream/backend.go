package downstream

import (
	"context"

	"ceiling/server/backend"
)

// Backend returns how a server opens a service with these faults (see Parse), and what calls it.
func Backend(faults string) backend.Open {
	return func(context.Context) (backend.Backend, error) {
		f, err := Parse(faults)
		if err != nil {
			return nil, err
		}
		service, err := Start(f)
		if err != nil {
			return nil, err
		}
		return NewCaller(service), nil
	}
}

// Routes of a server with a downstream service: one per policy, the results of all requests, and the
// start of an outage. Without a caller they can be listed, and not called.
func Routes(c *Caller) []backend.Route {
	var list []backend.Route
	for _, p := range Policies() {
		list = append(list, backend.Route{Path: "/call/" + p.Name, About: p.About,
			Query: func(uint64) ([]byte, error) { return c.Call(p.Name) }})
	}
	return append(list,
		backend.Route{Path: "/call/status", About: "requests, answers, and the calls that the service counts",
			Query: func(uint64) ([]byte, error) { return c.StatusJSON() }},
		backend.Route{Path: "/call/outage", About: "every call of the next second stalls until it is over", Writes: true,
			Query: func(uint64) ([]byte, error) {
				c.Service.Break()
				return c.StatusJSON()
			}})
}

// Routes implements backend.Backend.
func (c *Caller) Routes() []backend.Route { return Routes(c) }

// Line implements backend.Backend: there is nothing to say.
func (c *Caller) Line() string { return "" }
