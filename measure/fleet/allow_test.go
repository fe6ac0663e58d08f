//go:build linux

package fleet

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/measure/load"
)

func names(_ context.Context, host string) ([]netip.Addr, error) {
	table := map[string][]string{
		"web.example": {"10.0.0.7", "10.0.0.8"}, "six.example": {"fd00::7"},
		"mapped.example": {"::ffff:10.0.0.9"},
	}
	var list []netip.Addr
	for _, text := range table[host] {
		list = append(list, netip.MustParseAddr(text))
	}
	if list == nil {
		return nil, errors.New("no such host")
	}
	return list, nil
}

func TestAllowList(t *testing.T) {
	for _, c := range []struct {
		rules    string
		to       string
		permits  bool
		mentions string
	}{
		{"10.0.0.0/8", "10.1.2.3:80", true, ""},
		{"10.0.0.0/8", "11.0.0.1:80", false, "--allow 11.0.0.1:80"},
		{"10.0.0.0/8", "[::ffff:10.1.2.3]:80", true, ""},
		{"::ffff:10.0.0.0/104", "10.1.2.3:80", true, ""},
		{"10.0.0.0/8:8080", "10.1.2.3:8080", true, ""},
		{"10.0.0.0/8:8080", "10.1.2.3:8081", false, "10.0.0.0/8:8080"},
		{"10.0.0.7", "10.0.0.7:1", true, ""},
		{"10.0.0.7", "10.0.0.8:1", false, ""},
		{"10.0.0.7:80", "10.0.0.7:80", true, ""},
		{"10.0.0.7:80", "10.0.0.7:81", false, ""},
		{"fd00::/8", "[fd00::1]:80", true, ""},
		{"fd00::1", "[fd00::1]:80", true, ""},
		{"fd00::1", "[fd00::1%eth0]:80", true, ""},
		{"[fd00::1]:80", "[fd00::1]:80", true, ""},
		{"[fd00::1]:80", "[fd00::1]:81", false, ""},
		{"[fd00::/8]:80", "[fd12::1]:80", true, ""},
		{"[fd00::/8]:80", "[fe12::1]:80", false, ""},
		{"web.example", "10.0.0.8:80", true, ""},
		{"WEB.example:80", "10.0.0.7:80", true, ""},
		{"web.example:80", "10.0.0.7:81", false, ""},
		{"web.example", "10.0.0.9:80", false, ""},
		{"mapped.example", "10.0.0.9:80", true, ""},
		{"six.example", "[fd00::7]:80", true, ""},
		{"gone.example", "10.0.0.7:80", false, ""},
		{"gone.example 10.0.0.7", "10.0.0.7:80", true, ""},
		{"127.0.0.0/8", "0.0.0.0:80", true, ""},
		{"10.0.0.0/8", "0.0.0.0:80", false, ""},
		{"::1", "[::]:80", true, ""},
		{"unix:/run/web.sock", "127.0.0.1:80", false, ""},
		{"unix:/run/web.sock", "unix:/run/web.sock", true, ""},
		{"unix:@abstract", "unix:@abstract", true, ""},
		{"unix:/run/web.sock", "unix:/run/docker.sock", false, "--allow unix:/run/docker.sock"},
		{"unix:/run/web.sock 10.0.0.0/8", "unix:", false, ""},
		{"10.0.0.0/8", "unix:/run/web.sock", false, ""},
	} {
		list, err := ParseAllow(strings.Fields(c.rules))
		if err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		unix, is := strings.CutPrefix(c.to, "unix:")
		var to netip.AddrPort
		if !is {
			unix, to = "", netip.MustParseAddrPort(c.to)
		}
		err = list.Permits(t.Context(), to, unix, names)
		if (err == nil) != c.permits || err != nil && !strings.Contains(err.Error(), c.mentions) {
			t.Errorf("%s, %s: %v", c.rules, c.to, err)
		}
	}
	for to, want := range map[string]bool{"127.0.0.1:80": true, "127.9.9.9:1": true, "[::1]:80": true, "10.0.0.1:80": false,
		"192.168.0.1:80": false} {
		if err := Loopback().Permits(t.Context(), netip.MustParseAddrPort(to), "", names); (err == nil) != want {
			t.Errorf("without a list, %s: %v", to, err)
		}
	}
	if Loopback().Permits(t.Context(), netip.AddrPort{}, "/run/web.sock", names) == nil {
		t.Error("without a list a unix socket is permitted")
	}
}

func TestParseAllowRefuses(t *testing.T) {
	for _, text := range []string{
		"", "10.0.0.0/33", "10.0.0.0/8:", "10.0.0.7:0", "10.0.0.7:65536", "10.0.0.7:x", "[fd00::1:80", "1.2.3", "1.2.3.400", "0x7f000001",
		"a..b", "a b", "http://a/", "unix:", "unix:web.sock", ":80", strings.Repeat("a", 400), "*", "10.0.0.*",
	} {
		if list, err := ParseAllow([]string{text}); err == nil {
			t.Errorf("%q was taken for %v", text, list)
		}
	}
}

func FuzzParseAllow(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8:80", "[fd00::/8]:80", "web.example:80", "unix:@x", "::ffff:10.0.0.0/104"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseAllow([]string{text})
		if err != nil {
			return
		}
		again, err := ParseAllow(list.Texts())
		if err != nil || list[0] != again[0] {
			t.Fatalf("%q: %v, again %v, %v", text, list, again, err)
		}
	})
}

func TestCaps(t *testing.T) {
	rate := func(text string) unit.Rate {
		r, err := unit.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	quarter := load.Share{First: 1, Count: 1, Of: 4}
	caps := Caps{MaxRate: 1000, MaxTime: time.Minute, MaxConnections: 100}
	for name, c := range map[string]struct {
		spec  spec.Spec
		share load.Share
		want  string
	}{
		"closed":               {spec.Spec{Condition: spec.Condition{Connections: 100}, Duration: time.Minute}, load.Share{}, ""},
		"a number of requests": {spec.Spec{Condition: spec.Condition{Connections: 100}, Requests: 1 << 60}, load.Share{}, ""},
		"connections":          {spec.Spec{Condition: spec.Condition{Connections: 101}}, load.Share{}, "--max-connections"},
		"connections, shared":  {spec.Spec{Condition: spec.Condition{Connections: 400}}, quarter, ""},
		"too many, shared":     {spec.Spec{Condition: spec.Condition{Connections: 404}}, quarter, "--max-connections"},
		"time":                 {spec.Spec{Duration: time.Minute + 1}, load.Share{}, "--max-time"},
		"time with warm-up":    {spec.Spec{Duration: time.Minute, Warmup: 1}, load.Share{}, "--max-time"},
		"time with the ramp":   {spec.Spec{Duration: time.Minute, ConnectRamp: 1}, load.Share{}, "--max-time"},
		"time overflows":       {spec.Spec{Duration: 1 << 62, Warmup: 1 << 62}, load.Share{}, "--max-time"},
		"negative":             {spec.Spec{Duration: -1}, load.Share{}, "--max-time"},
		"rate":                 {spec.Spec{Condition: spec.Condition{Rate: rate("1k")}}, load.Share{}, ""},
		"rate above":           {spec.Spec{Condition: spec.Condition{Rate: rate("1001")}}, load.Share{}, "--max-rate"},
		"rate, shared":         {spec.Spec{Condition: spec.Condition{Rate: rate("4k")}}, quarter, ""},
		"rate above, shared":   {spec.Spec{Condition: spec.Condition{Rate: rate("4004")}}, quarter, "--max-rate"},
		"ramp ends above":      {spec.Spec{Condition: spec.Condition{Rate: rate("1:1001")}, Duration: time.Second}, load.Share{}, "--max-rate"},
		"a proxy":              {spec.Spec{Common: spec.Common{Dial: spec.Dial{Proxy: "127.0.0.1:1"}}, Duration: time.Second}, load.Share{}, "--proxy"},
		"a step is above":      {spec.Spec{Condition: spec.Condition{Rate: rate("1+1001+1")}, Duration: time.Second}, load.Share{}, "--max-rate"},
		"ramp begins above":    {spec.Spec{Condition: spec.Condition{Rate: rate("1001:1")}, Duration: time.Second}, load.Share{}, "--max-rate"},
	} {
		err := caps.Check(&c.spec, c.share)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := (Caps{MaxTime: time.Hour}).Check(&spec.Spec{Condition: spec.Condition{Connections: 1 << 30}}, load.Share{}); err != nil {
		t.Errorf("without caps: %v", err)
	}
}
