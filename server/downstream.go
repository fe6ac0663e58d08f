package server

import (
	"ceiling/server/downstream"
)

// DownstreamRoutes returns the additional routes of a server with a downstream service: one per
// policy, the results of all requests, and the start of an outage. If the policy yields no answer
// they return 503 and the reason.
func DownstreamRoutes() []Route {
	var list []Route
	for _, p := range downstream.Policies() {
		list = append(list, Route{
			Path: "/call/" + p.Name, About: p.About, ContentType: typeJSON,
			call: func(c *downstream.Caller) ([]byte, error) { return c.Call(p.Name) },
		})
	}
	return append(list,
		Route{Path: "/call/status", About: "requests, answers, and the calls that the service counts", ContentType: typeJSON,
			call: (*downstream.Caller).StatusJSON},
		Route{Path: "/call/outage", About: "every call of the next second stalls until it is over", ContentType: typeJSON, Writes: true,
			call: func(c *downstream.Caller) ([]byte, error) {
				c.Service.Break()
				return c.StatusJSON()
			}})
}

// startDownstream starts the service that faults describe, and gives s the routes that call it.
func (s *site) startDownstream(faults string) error {
	if faults == "" {
		return nil
	}
	f, err := downstream.Parse(faults)
	if err != nil {
		return err
	}
	service, err := downstream.Start(f)
	if err != nil {
		return err
	}
	s.caller = downstream.NewCaller(service)
	s.routes = append(s.routes, DownstreamRoutes()...)
	return nil
}
