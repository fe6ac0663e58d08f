//go:build linux

package load

import (
	"net/http"
	"reflect"
	"testing"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// TestRedirectsAreKept: where the first of each status leads, in every protocol, without what may be
// a secret.
func TestRedirectsAreKept(t *testing.T) {
	needs.Engine(t)
	want := []Redirect{{302, "https://sso.example/login"}}
	const location = "https://me:secret@sso.example/login?token=1#x"
	elsewhere := func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Location", location)
		out.WriteHeader(http.StatusFound)
	}
	check := func(t *testing.T, r *Result) {
		t.Helper()
		if !reflect.DeepEqual(r.Redirects, want) || r.Total.Bad != 0 || len(r.Errors) != 0 {
			t.Errorf("%+v, %d bad, errors %+v", r.Redirects, r.Total.Bad, r.Errors)
		}
	}
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.Answer(faultserver.Response("302 Found", "LOCATION: "+location+"\r\n", ""))))
		check(t, runs(t, config(t, s, engine, 100)))
		check(t, runs(t, newGoServer(t, false, nil, elsewhere).config(t, engine, 100, 4)))
	})
}
