package server

import (
	"ceiling/server/downstream"
)

// DownstreamRoutes returns the routes that a server with a downstream service has besides: one for each policy, what came
// of all requests, and the beginning of an outage. Where the policy comes to no answer they answer 503 and say why.
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
