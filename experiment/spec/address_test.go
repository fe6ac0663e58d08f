package spec

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	tcp := func(host string, port uint16) Address { return Address{Network: TCP, Host: host, Port: port} }
	secure := func(host string, port uint16) Address {
		return Address{Network: TCP, Host: host, Port: port, TLS: true}
	}
	unix := func(path string) Address { return Address{Network: Unix, Path: path} }
	for _, c := range []struct {
		url    string
		addr   Address
		dial   string
		target string
		host   string
	}{
		{"http://localhost/", tcp("localhost", 80), "localhost:80", "/", "localhost"},
		{"http://localhost", tcp("localhost", 80), "localhost:80", "/", "localhost"},
		{"http://localhost:80/", tcp("localhost", 80), "localhost:80", "/", "localhost"},
		{"HTTP://LocalHost:8080/X", tcp("localhost", 8080), "localhost:8080", "/X", "LocalHost:8080"},
		{"http://127.0.0.1:8080/a/../b//c?x=%zz&y=[1]|{}", tcp("127.0.0.1", 8080), "127.0.0.1:8080", "/a/../b//c?x=%zz&y=[1]|{}",
			"127.0.0.1:8080"},
		{"http://127.0.0.1?q", tcp("127.0.0.1", 80), "127.0.0.1:80", "/?q", "127.0.0.1"},
		{"http://h:/x", tcp("h", 80), "h:80", "/x", "h"},
		{"https://h:", secure("h", 443), "h:443", "/", "h"},
		{"http://[::1]:?q", tcp("::1", 80), "[::1]:80", "/?q", "[::1]"},
		{"http://h/a#frag?no", tcp("h", 80), "h:80", "/a", "h"},
		{"http://h#frag/no", tcp("h", 80), "h:80", "/", "h"},
		{"http://[::1]:8080/x", tcp("::1", 8080), "[::1]:8080", "/x", "[::1]:8080"},
		{"http://[0:0::1]/x", tcp("::1", 80), "[::1]:80", "/x", "[::1]"},
		{"[::1]:81", tcp("::1", 81), "[::1]:81", "/", "[::1]:81"},
		{"http://[fe80::1%25eth0]:9/", tcp("fe80::1%eth0", 9), "[fe80::1%eth0]:9", "/", "[fe80::1]:9"},
		{"http://[fe80::1%eth0]/", tcp("fe80::1%eth0", 80), "[fe80::1%eth0]:80", "/", "[fe80::1]"},
		{"localhost:8080/x?u=http://other/", tcp("localhost", 8080), "localhost:8080", "/x?u=http://other/", "localhost:8080"},
		{":8080/x", tcp("localhost", 8080), "localhost:8080", "/x", "localhost:8080"},
		{"my_host.example.com.", tcp("my_host.example.com.", 80), "my_host.example.com.:80", "/", "my_host.example.com."},
		{"http://h/@me:x", tcp("h", 80), "h:80", "/@me:x", "h"},
		{"https://h/x", secure("h", 443), "h:443", "/x", "h"},
		{"HTTPS://[::1]:80/", secure("::1", 80), "[::1]:80", "/", "[::1]:80"},
		{"http://h:443/", tcp("h", 443), "h:443", "/", "h:443"},
		{"unix:/run/x.sock:/path?q=1", unix("/run/x.sock"), "/run/x.sock", "/path?q=1", "localhost"},
		{"unix:/run/a b/é.sock:/x", unix("/run/a b/é.sock"), "/run/a b/é.sock", "/x", "localhost"},
		{"unix:/run/x.sock", unix("/run/x.sock"), "/run/x.sock", "/", "localhost"},
		{"unix:/run/x.sock:?q", unix("/run/x.sock"), "/run/x.sock", "/?q", "localhost"},
		{"unix:///run/x.sock:/a:b", unix("/run/x.sock"), "/run/x.sock", "/a:b", "localhost"},
		{"unix:@name:/a", unix("@name"), "@name", "/a", "localhost"},
		{"http+unix://%2Frun%2Fa:b.sock/path#f", unix("/run/a:b.sock"), "/run/a:b.sock", "/path", "localhost"},
		{"http+unix://%2Frun%2Fx.sock", unix("/run/x.sock"), "/run/x.sock", "/", "localhost"},
	} {
		addr, target, host, err := ParseTarget(c.url)
		if err != nil || addr != c.addr || target != c.target || host != c.host || addr.String() != c.dial {
			t.Errorf("ParseTarget(%q) = %+v (%s), %q, %q, %v; want %+v (%s), %q, %q",
				c.url, addr, addr, target, host, err, c.addr, c.dial, c.target, c.host)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"", "the host is missing"},
		{"http://", "the host is missing"},
		{"http:///x", "the host is missing"},
		{"/x", "the host is missing"},
		{"https://", "the host is missing"},
		{"https://h:x/", `bad port "x"`},
		{"ftp://h/", `unknown scheme "ftp"; give http://`},
		{"h:/", `bad port ""`},
		{"http://:/", `bad port ""`},
		{"http://h:0/", `bad port "0"`},
		{"http://h:65536/", `bad port "65536"`},
		{"http://h:+80/", `bad port "+80"`},
		{"http://h:8x/", `bad port "8x"`},
		{"mailto:me", `bad port "me"`},
		{"http://me:secret@h/", "-H 'Authorization: Basic BASE64'"},
		{"http://::1/", "goes in brackets"},
		{"http://[::1/", "bad IPv6 address"},
		{"http://[127.0.0.1]/", "bad IPv6 address"},
		{"http://[::1]8080/", "follows the ]"},
		{"http://a]:80/", "no place in a host name"},
		{"http://1.2.3.400/", "bad IPv4 address"},
		{"http://1.2.3/", "bad IPv4 address"},
		{"http://a,b/", "no place in a host name"},
		{"http://" + strings.Repeat("a", 254) + "/", "DNS allows 253"},
		{"http://h/a b", "space at byte 11: write %20"},
		{"http://h/a\r\nX: y", "control character (0x0d) at byte 11; write %0D"},
		{"http://h/é", "percent-encoded"},
		{"http://h/" + strings.Repeat("a", urlMax), "are too many"},
		{"unix:", "path is missing"},
		{"unix:run/x.sock:/a", "is not absolute"},
		{"unix:/run/x.sock:8080", `"8080" is not a path`},
		{"unix:/" + strings.Repeat("a", 107), "the kernel allows 107"},
		{"http+unix://%2/x", "bad percent sign"},
		{"http+unix://%2Fa%00/x", "zero byte"},
		{"http+unix:///x", "path is missing"},
	} {
		_, _, _, err := ParseTarget(c.url)
		checkError(t, "ParseTarget("+quoteShort(c.url)+")", err, c.want)
	}
}

// checkError wants an error of one line that contains want.
func checkError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: error %v; want one line with %q", what, err, want)
	}
}

func TestParseTargetHidesPassword(t *testing.T) {
	for _, url := range []string{"http://me:secret@h/", "me:secret@h", "ftp://me:secret@h/", "http://me:secret @h/#x"} {
		_, _, _, err := ParseTarget(url)
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "@h") {
			t.Errorf("error %v; want one without the password", err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"http://[fe80::1%25eth0]:9/", ":8080/x", "unix:/run/x.sock:/p?q", "http+unix://%2Frun%2Fx/p", "a?b#c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		addr, target, host, err := ParseTarget(text)
		if err != nil {
			if addr != (Address{}) || target != "" || host != "" {
				t.Errorf("an error beside %v %q %q", addr, target, host)
			}
			return
		}
		if !strings.HasPrefix(target, "/") || strings.ContainsAny(target, " \r\n#") {
			t.Errorf("request target %q", target)
		}
		if host == "" || strings.ContainsAny(host, " \r\n%@/") {
			t.Errorf("host %q", host)
		}
		if addr.Network == Unix {
			return
		}
		again, _, hostAgain, err := ParseTarget("http://" + addr.String() + target)
		if err != nil || again != addr || !strings.EqualFold(hostAgain, host) {
			t.Errorf("%q is %v %q, read again %v %q %v", text, addr, host, again, hostAgain, err)
		}
	})
}

func TestParseSource(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.2": "10.0.0.2/32", "10.0.0.5/28": "10.0.0.0/28", "::1": "::1/128", "fd00::7/120": "fd00::/120",
		"::ffff:10.0.0.2": "10.0.0.2/32", "127.0.0.0/16": "127.0.0.0/16",
	} {
		if p, err := ParseSource(text); err != nil || p.String() != want {
			t.Errorf("%s is %v, %v; want %s", text, p, err, want)
		}
	}
	for text, says := range map[string]string{
		"": "invalid", "eth0": "invalid", "10.0.0.2:80": "invalid", "10.0.0.0/33": "invalid", "fe80::1%eth0": "invalid",
		"10.0.0.0/8": "more than 65536", "fd00::/64": "more than 65536", "::ffff:10.0.0.0/120": "IPv4 in IPv6",
	} {
		if _, err := ParseSource(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestCredentials: those of a URL and of -u become the field that curl sends; one that is given stays.
func TestCredentials(t *testing.T) {
	basic := func(userinfo string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(userinfo)) }
	for _, c := range []struct{ url, user, field, wantURL, want string }{
		{"http://me:pw@h:1/x?a=b@c", "", "", "http://h:1/x?a=b@c", basic("me:pw")},
		{"http://me:p%40w@h/", "", "", "http://h/", basic("me:p@w")},
		{"https://me@h/", "", "", "https://h/", basic("me:")},
		{"http://h/", "me:pw", "", "http://h/", basic("me:pw")},
		{"http://a:b@h/", "me:pw", "", "http://h/", basic("me:pw")},
		{"http://a:b@h/", "", "Bearer x", "http://h/", "Bearer x"},
		{"http://h/me@x", "", "", "http://h/me@x", ""},
		{"unix:/run/a@b:/", "", "", "unix:/run/a@b:/", ""},
	} {
		target := Target{URL: c.url}
		if c.field != "" {
			target.Header = []Field{{"authorization", c.field}}
		}
		if err := target.MoveCredentials(c.user); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range target.Header {
			got += f.Value
		}
		if target.URL != c.wantURL || got != c.want {
			t.Errorf("%s, %s: %s, %q", c.url, c.user, target.URL, got)
		}
	}
	if err := (&Target{URL: "http://me:p%w@h/"}).MoveCredentials(""); err == nil || !strings.Contains(err.Error(), "%25") {
		t.Error(err)
	}
}
