//go:build linux

package server

import (
	"net/http"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/server/backend"
	"ceiling/server/downstream"
)

// Every framework answers the routes of a downstream service alike: what the policy came to, or 503 with the reason.
func TestFrameworksAnswerAlikeFromDownstream(t *testing.T) {
	needs.Processes(t)
	for _, k := range kindsWithDatabase() {
		for faults, want := range map[string]map[string]string{
			"timeout=20s": {"none": `{"ok":true}`, "timeout": `{"ok":true}`, "retry": `{"ok":true}`, "budget": `{"ok":true}`,
				"breaker": `{"ok":true}`, "fallback": `{"ok":true}`},
			"fail=100%,timeout=20s": {"none": "", "timeout": "", "retry": "", "budget": "", "fallback": `{"ok":true,"stale":true}`},
		} {
			t.Run(k.Name+" "+faults, func(t *testing.T) {
				c := newClient(t, start(t, k.Name, Config{Behind: []backend.Open{downstream.Backend(faults)}}).addr)
				for policy, body := range want {
					c.send(t, http.MethodGet, "/call/"+policy)
					a := c.read(t, http.MethodGet)
					good := a.status == 200 && string(a.body) == body
					if body == "" {
						good = a.status == 503 && strings.Contains(string(a.body), "500 Internal Server Error")
					}
					if !good || a.contentType != typeJSON || a.chunked || a.length != int64(len(a.body)) {
						t.Errorf("%s: %+v: %s", policy, a, a.body)
					}
				}
				c.send(t, http.MethodPost, "/call/outage")
				if a := c.read(t, http.MethodPost); a.status != 200 || !strings.Contains(string(a.body), `"requests":`) {
					t.Errorf("outage: %+v: %s", a, a.body)
				}
			})
		}
	}
}

// A server whose downstream service stalls stops within its second all the same, and the service with it.
func TestServerStopsWhileDownstreamStalls(t *testing.T) {
	needs.Processes(t)
	for _, k := range kindsWithDatabase() {
		t.Run(k.Name, func(t *testing.T) {
			r := start(t, k.Name, Config{Behind: []backend.Open{downstream.Backend("work=1m")}})
			c := newClient(t, r.addr)
			c.send(t, http.MethodGet, "/call/none")
			c.send(t, http.MethodGet, "/call/retry")
			r.stop(t)
		})
	}
}

func TestServeRefusesDownstream(t *testing.T) {
	for kind, cfg := range map[string]Config{
		"floor":   {Behind: []backend.Open{downstream.Backend("own")}},
		"nethttp": {Behind: []backend.Open{downstream.Backend("speed=1")}},
		"fiber":   {Behind: []backend.Open{downstream.Backend("own")}, Prefork: true},
	} {
		if err := Serve(t.Context(), kind, cfg); err == nil {
			t.Errorf("%s serves with %+v", kind, cfg)
		}
	}
}
