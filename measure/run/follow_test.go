//go:build linux

package run

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
)

// TestFollow: a target becomes what its redirects lead to, and another host gets no secrets.
func TestFollow(t *testing.T) {
	var far, near []string // what came with Authorization
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		far = append(far, in.Method+in.URL.Path+in.Header.Get("Authorization")+in.Header.Get("X-A"))
	}))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		near = append(near, in.URL.Path+in.Header.Get("Authorization"))
		switch in.URL.Path {
		case "/a":
			http.Redirect(out, in, "b/?q=1", http.StatusFound)
		case "/b/":
			http.Redirect(out, in, other.URL+"/c#part", http.StatusPermanentRedirect)
		case "/loop":
			http.Redirect(out, in, "/loop", http.StatusMovedPermanently)
		case "/300":
			out.Header().Set("Location", "/a")
			out.WriteHeader(http.StatusNotModified)
		case "/bad":
			out.Header().Set("Location", "http://[::1")
			out.WriteHeader(http.StatusFound)
		case "/ftp":
			out.Header().Set("Location", "ftp://127.0.0.1/")
			out.WriteHeader(http.StatusFound)
		}
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	header := []spec.Field{{Name: "Authorization", Value: "Basic YTpi"}, {Name: "X-A", Value: "1"}}
	target := &spec.Target{Method: "GET", URL: host + "/a", Header: header}
	urls, err := Follow(t.Context(), target, spec.Dial{}, nil)
	if want := []string{s.URL + "/a", s.URL + "/b/?q=1", other.URL + "/c"}; err != nil || !slices.Equal(urls, want) || target.URL != want[2] {
		t.Errorf("went %v (%v), want %v", urls, err, want)
	}
	if len(target.Header) != 1 || !slices.Equal(far, []string{"GET/c1"}) || !slices.Equal(near, []string{"/aBasic YTpi", "/b/Basic YTpi"}) || len(header) != 2 {
		t.Errorf("the second host had %v, the first %v; %v is left", far, near, target.Header)
	}
	target = &spec.Target{Method: "GET", URL: s.URL + "/300"}
	if urls, err := Follow(t.Context(), target, spec.Dial{}, nil); err != nil || len(urls) != 1 || target.URL != s.URL+"/300" {
		t.Errorf("no redirect: %v, %v", urls, err)
	}
	for url, want := range map[string]string{
		s.URL + "/loop": "more than 10 redirects", s.URL + "/bad": "its Location is not a URL", s.URL + "/ftp": "ftp",
		"unix:/x.sock:/a": "http:// or https://", "ws://127.0.0.1/": "http:// or https://", "http://127.0.0.1:1/": "connection refused",
	} {
		if _, err := Follow(t.Context(), &spec.Target{Method: "GET", URL: url}, spec.Dial{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	post := &spec.Target{Method: "POST", URL: s.URL + "/a"}
	if _, err := Follow(t.Context(), post, spec.Dial{}, nil); err == nil || !strings.Contains(err.Error(), "a POST may not be sent twice") {
		t.Errorf("POST: %v", err)
	}
	at := strings.Replace(host, "127.0.0.1", "shop.test", 1)
	named := &spec.Target{Method: "HEAD", URL: at + "/300"}
	if urls, err := Follow(t.Context(), named, spec.Dial{Resolve: []string{at + ":127.0.0.1"}}, nil); err != nil || len(urls) != 1 {
		t.Errorf("--resolve: %v, %v", urls, err)
	}
}
