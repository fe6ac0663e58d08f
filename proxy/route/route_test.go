package route

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func find(t *testing.T, tab *Table, host, target, method string, headers map[string]string) int {
	t.Helper()
	_, p, q := SplitTarget([]byte(target))
	clean, ok := Clean(p, nil)
	if !ok {
		return -2
	}
	return tab.Find(&Query{Host: []byte(host), Path: clean, Query: q, Method: []byte(method), Header: func(name string) []byte {
		if v, ok := headers[strings.ToLower(name)]; ok {
			return []byte(v)
		}
		return nil
	}})
}

func TestFind(t *testing.T) {
	prefix, exact, regex := func(p string) []Path { return []Path{{Prefix, p}} }, func(p string) []Path { return []Path{{Exact, p}} },
		func(p string) []Path { return []Path{{Regex, p}} }
	rules := []Rule{
		0:  {Hosts: []string{"a.com"}},
		1:  {Hosts: []string{"a.com"}, Paths: prefix("/api")},
		2:  {Hosts: []string{"a.com"}, Paths: prefix("/api/v1")},
		3:  {Hosts: []string{"a.com"}, Paths: exact("/api/v1/me")},
		4:  {Hosts: []string{"a.com"}, Paths: regex(`^/api/v\d+/x$`)},
		5:  {Hosts: []string{"a.com:8443"}},
		6:  {Hosts: []string{"*.a.com"}},
		7:  {Hosts: []string{"*.b.a.com"}},
		8:  {Hosts: []string{"a.com"}, Paths: prefix("/m"), Methods: []string{"POST"}},
		9:  {Hosts: []string{"a.com"}, Paths: prefix("/q"), Queries: map[string]string{"k": "v w", "any": "*"}},
		10: {Hosts: []string{"a.com"}, Paths: prefix("/h"), Headers: map[string][]string{"X-A": {"1", "2"}}},
		11: {Paths: prefix("/everywhere"), Priority: 1},
		12: {Hosts: []string{"*"}, Paths: prefix("/any")},
		13: {Hosts: []string{"B.com", "c.com"}, Paths: append(prefix("/one"), prefix("/two/")...)},
	}
	tab, err := New(rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		host, target, method string
		headers              map[string]string
		want                 int
	}{
		{"a.com", "/", "GET", nil, 0}, {"A.COM", "/", "GET", nil, 0}, {"a.com:80", "/x", "GET", nil, 0}, {"a.com:8443", "/x", "GET", nil, 5},
		{"a.com", "/api", "GET", nil, 1}, {"a.com", "/api/", "GET", nil, 1}, {"a.com", "/apix", "GET", nil, 0},
		{"a.com", "/api/v1/y", "GET", nil, 2},
		{"a.com", "/api/v1/me", "GET", nil, 3}, {"a.com", "/api/v1/me/", "GET", nil, 2}, {"a.com", "/api/v1/x", "GET", nil, 4},
		{"a.com", "/api/v22/x", "GET", nil, 4},
		{"a.com", "/api/../api/v1/./me", "GET", nil, 3}, {"a.com", "/%61pi/v1/me", "GET", nil, 3}, {"a.com", "//api//v1/me", "GET", nil, 3},
		{"a.com", "/x/%2e%2e/api", "GET", nil, 1},
		{"a.com", "/api%2fv1%2fme", "GET", nil, 3},
		{"x.a.com", "/", "GET", nil, 6}, {"x.y.a.com", "/", "GET", nil, 6}, {"x.b.a.com", "/", "GET", nil, 7}, {".a.com", "/", "GET", nil, -1},
		{"xa.com", "/", "GET", nil, -1},
		{"a.com", "/m", "POST", nil, 8}, {"a.com", "/m", "GET", nil, 0}, {"a.com", "/m", "post", nil, 0},
		{"a.com", "/q?any=&k=v+w", "GET", nil, 9}, {"a.com", "/q?any=&k=v%20w", "GET", nil, 9}, {"a.com", "/q?k=v+w", "GET", nil, 0},
		{"a.com", "/q?any&k=x&k=v+w", "GET", nil, 0},
		{"a.com", "/h", "GET", map[string]string{"x-a": "2"}, 10}, {"a.com", "/h", "GET", map[string]string{"x-a": "3"}, 0},
		{"a.com", "/h", "GET", nil, 0},
		{"a.com", "/everywhere", "GET", nil, 11}, {"nobody", "/everywhere/x", "GET", nil, 11}, {"nobody", "/any", "GET", nil, 12},
		{"nobody", "/", "GET", nil, -1}, {"", "/any", "GET", nil, 12},
		{"a.com", "http://a.com/api?x", "GET", nil, 1}, {"a.com", "*", "OPTIONS", nil, 0}, {"b.com", "/one", "GET", nil, 13},
		{"c.com", "/two/x", "GET", nil, 13}, {"c.com", "/two", "GET", nil, -1},
		{"[::1]:80", "/any", "GET", nil, 12}, {"a.com", "/..", "GET", nil, -2}, {"a.com", "/a/../../b", "GET", nil, -2},
		{"a.com", "/%00", "GET", nil, -2}, {"a.com", `/a\b`, "GET", nil, -2},
	} {
		if got := find(t, tab, k.host, k.target, k.method, k.headers); got != k.want {
			t.Errorf("%s %s %s: %d, want %d", k.method, k.host, k.target, got, k.want)
		}
	}
}

// TestFindOrder: the first of equals in the file's order takes the request,
// whatever the order in which maps are walked.
func TestFindOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		var rules []Rule
		for range n {
			rules = append(rules, Rule{
				Hosts: []string{rapid.SampledFrom([]string{"a", "*.a", "b.*", "b.a", "*"}).Draw(t, "host")},
				Paths: []Path{{rapid.SampledFrom([]PathKind{Prefix, Exact}).Draw(t, "kind"),
					rapid.SampledFrom([]string{"/", "/x", "/x/y"}).Draw(t, "path")}},
				Priority: rapid.IntRange(0, 1).Draw(t, "priority"),
			})
		}
		tab, err := New(rules)
		if err != nil {
			t.Fatal(err)
		}
		q := Query{Host: []byte(rapid.SampledFrom([]string{"a", "b.a", "c.a", "d"}).Draw(t, "asked")),
			Path: []byte(rapid.SampledFrom([]string{"/", "/x", "/x/y", "/x/y/z"}).Draw(t, "at"))}
		got := tab.Find(&q)
		want := -1
		for i := range rules { // the same said naively: the best of all that match
			list, _ := entriesOf(&rules[i], i)
			e := &list[0]
			if !e.takes(string(q.Host)) || !e.matches(&q, q.Host, nil) {
				continue
			}
			if want < 0 {
				want = i
				continue
			}
			other, _ := entriesOf(&rules[want], want)
			if before(*e, other[0]) < 0 {
				want = i
			}
		}
		if got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

func TestFindDoesNotAllocate(t *testing.T) {
	tab, err := New([]Rule{{Hosts: []string{"a.com"}, Paths: []Path{{Regex, "^/x"}}}, {Hosts: []string{"*.b.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"a.com", "c.b.com", "nobody"} {
		q := Query{Host: []byte(host), Path: []byte("/x"), Method: []byte("GET")}
		if n := testing.AllocsPerRun(100, func() { tab.Find(&q) }); n != 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

// FuzzClean: what is clean has no step that another reader would resolve, cleaning
// it again changes nothing, and it is what path.Clean makes of the decoded path.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/%2e%2e/x", "//", "/a/./", "/a%2fb/..", "/...", "/%", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		decoded, err := url.PathUnescape(s)
		if err != nil || !strings.HasPrefix(s, "/") {
			return // the parser refuses it
		}
		clean, ok := Clean([]byte(s), nil)
		depth, climbs := 0, false
		for part := range strings.SplitSeq(decoded, "/") {
			switch part {
			case "", ".":
			case "..":
				depth--
				climbs = climbs || depth < 0
			default:
				depth++
			}
		}
		if wrong := climbs || strings.ContainsAny(decoded, "\x00\\"); ok == wrong {
			t.Fatalf("%q: ok %v", s, ok)
		}
		if !ok {
			return
		}
		want := path.Clean(decoded)
		last := decoded[strings.LastIndexByte(decoded, '/')+1:]
		if want != "/" && (last == "" || last == "." || last == "..") {
			want += "/"
		}
		if string(clean) != want {
			t.Fatalf("%q: %q, want %q", s, clean, want)
		}
	})
}

func choices(t *rapid.T) []Choice {
	n := rapid.IntRange(1, 8).Draw(t, "n")
	var list []Choice
	for i := range n {
		list = append(list, Choice{
			Weight: rapid.IntRange(1, 5).Draw(t, "weight"), Busy: rapid.IntRange(0, 9).Draw(t, "busy"),
			Usable: rapid.Bool().Draw(t, "usable"), Seed: HashOf(fmt.Appendf(nil, "d%d", i)),
		})
	}
	return list
}

// TestChooseUsable: every balance chooses a usable one if there is any.
func TestChooseUsable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := choices(t)
		any := false
		for _, c := range list {
			any = any || c.Usable
		}
		c := Chooser{Balance: Balance(rapid.IntRange(0, 3).Draw(t, "balance"))}
		for range 20 {
			i := c.Choose(list, rapid.Uint64().Draw(t, "key"))
			if i < 0 == any || i >= 0 && !list[i].Usable {
				t.Fatalf("%d of %+v", i, list)
			}
		}
	})
}

// TestTurnIsFair: over the sum of the weights each gets exactly its weight, and
// nobody waits longer than a round.
func TestTurnIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := choices(t)
		sum := 0
		for i := range list {
			list[i].Usable = true
			sum += list[i].Weight
		}
		if len(list) == 1 {
			return
		}
		var c Chooser
		for round := range 3 {
			got := make([]int, len(list))
			for range sum {
				got[c.Choose(list, 0)]++
			}
			for i := range list {
				if got[i] != list[i].Weight {
					t.Fatalf("round %d: %v of %+v", round, got, list)
				}
			}
		}
	})
}

func TestLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := choices(t)
		c := Chooser{Balance: LeastConnections}
		i := c.Choose(list, 0)
		for j := range list {
			if i >= 0 && list[j].Usable && busier(&list[i], &list[j]) {
				t.Fatalf("chose %d of %+v, %d is less busy", i, list, j)
			}
		}
	})
}

// TestTwoChoices: it never takes the busiest of three or more that differ.
func TestTwoChoices(t *testing.T) {
	c := Chooser{Balance: TwoChoices}
	list := []Choice{{1, 0, true, 1}, {1, 5, true, 2}, {1, 9, true, 3}}
	got := [3]int{}
	for range 1000 {
		got[c.Choose(list, 0)]++
	}
	if got[2] != 0 || got[0] < got[1] || got[1] == 0 {
		t.Errorf("%v", got)
	}
}

// TestHashMovesLittle: when one goes, only its keys move; shares follow the
// weights.
func TestHashMovesLittle(t *testing.T) {
	list := []Choice{}
	for i := range 5 {
		list = append(list, Choice{Weight: 1 + i%2, Usable: true, Seed: HashOf(fmt.Appendf(nil, "d%d", i))})
	}
	c := Chooser{Balance: Hash}
	const keys = 20000
	before := make([]int, keys)
	share := make([]int, len(list))
	for k := range before {
		before[k] = c.Choose(list, HashOf(fmt.Appendf(nil, "key %d", k)))
		share[before[k]]++
	}
	for i, n := range share {
		if want := keys * list[i].Weight / 7; n < want*9/10 || n > want*11/10 {
			t.Errorf("destination %d has %d keys, its weight is worth %d", i, n, want)
		}
	}
	list[2].Usable = false
	for k := range before {
		now := c.Choose(list, HashOf(fmt.Appendf(nil, "key %d", k)))
		if before[k] != 2 && now != before[k] {
			t.Fatalf("key %d moved from %d to %d", k, before[k], now)
		}
	}
}

// TestParameters: a path is compared as Java's servers would read it, and refused where they would
// climb by a segment that others take as a name.
func TestParameters(t *testing.T) {
	for path, want := range map[string]string{
		"/admin;x": "/admin", "/admin;x=1;y/users;z": "/admin/users", "/;x/admin": "/admin", "/a/;x": "/a/", "/;": "/", "/admin%3bx": "/admin",
		"/%61dmin;%2e%2e/x": "/admin/x", "/plain": "/plain", "/a;/b": "/a/b", "/...;x/b": "/.../b", "/a;../b": "/a/b",
		"/x/..;/admin": "", "/x/.;/admin": "", "/x/..;a=b/admin": "", "/x/%2e%2e;/admin": "", "/x/..%3b/admin": "", "/x/.%2e%3Ba": "", "/..;/..;/a": "",
	} {
		clean, ok := Clean([]byte(path), nil)
		if got := ""; ok {
			if got = string(Bare(clean)); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		} else if want != "" {
			t.Errorf("%s is refused, want %q", path, want)
		}
	}
}

// TestCutPrefix: once, at the front, in whole segments, in every spelling.
func TestCutPrefix(t *testing.T) {
	for _, c := range []struct{ path, prefix, want string }{
		{"/api/x", "/api", "/x"}, {"/api", "/api", ""}, {"/api/", "/api", "/"}, {"/api/x/api/y", "/api", "/x/api/y"}, {"/apiary", "/api", "-"},
		{"/public/api/x", "/api", "-"}, {"/api/x", "/api/", "/x"}, {"/api", "/api/", "-"}, {"/api/", "/api/", "/"}, {"/%61pi/x%2fy", "/api", "/x%2fy"},
		{"//api/x", "/api", "/x"}, {"/./api/x", "/api", "/x"}, {"/api;v=1/x", "/api", "/x"}, {"/api/../api/x", "/api", "/x"},
		{"/api/../other", "/api", "-"}, {"/a/b/c", "/a/b", "/c"}, {"/x", "/", "/x"}, {"/api/%2e%2e/x", "/api", "-"},
	} {
		rest, found := CutPrefix([]byte(c.path), c.prefix)
		if got := string(rest); found && got != c.want || !found && c.want != "-" {
			t.Errorf("%s without %s: %q %v, want %q", c.path, c.prefix, got, found, c.want)
		}
	}
}

// TestFindHidden: exactly the rules that no request reaches.
func TestFindHidden(t *testing.T) {
	p := func(texts ...string) (list []Path) {
		for _, text := range texts {
			list = append(list, Path{Prefix, text})
		}
		return list
	}
	for name, c := range map[string]struct {
		rules []Rule
		want  string // of rule 1
	}{
		"the same":                    {[]Rule{{Hosts: []string{"a"}, Paths: p("/x")}, {Hosts: []string{"a"}, Paths: p("/x")}}, "a/x by 0 whole"},
		"both for all":                {[]Rule{{}, {}}, "* by 0 whole"},
		"the same in other letters":   {[]Rule{{Hosts: []string{"A"}}, {Hosts: []string{"a"}}}, "a by 0 whole"},
		"one of two paths":            {[]Rule{{Paths: p("/x")}, {Paths: p("/x", "/y")}}, "*/x by 0"},
		"a longer path":               {[]Rule{{Paths: p("/x")}, {Paths: p("/x/y")}}, ""},
		"a longer path, priority":     {[]Rule{{Paths: p("/x"), Priority: 1}, {Paths: p("/x/y")}}, "*/x/y by 0 whole"},
		"a sibling path, priority":    {[]Rule{{Paths: p("/x"), Priority: 1}, {Paths: p("/xy")}}, ""},
		"a host":                      {[]Rule{{Paths: p("/x")}, {Hosts: []string{"a"}, Paths: p("/x")}}, ""},
		"a wildcard with priority":    {[]Rule{{Hosts: []string{"*.a"}, Priority: 1}, {Hosts: []string{"b.a"}}}, "b.a by 0 whole"},
		"a regex for all":             {[]Rule{{Paths: []Path{{Regex, "^/"}}}, {Paths: p("/x")}}, "*/x by 0 whole"},
		"a regex for others":          {[]Rule{{Paths: []Path{{Regex, "^/y"}}}, {Paths: p("/x")}}, ""},
		"a regex of an exact path":    {[]Rule{{Paths: []Path{{Regex, "^/y"}}, Priority: 1}, {Paths: []Path{{Exact, "/yes"}}}}, "*/yes by 0 whole"},
		"only some methods":           {[]Rule{{Methods: []string{"GET"}}, {}}, ""},
		"more methods":                {[]Rule{{Methods: []string{"GET", "PUT"}}, {Methods: []string{"PUT"}}}, "* by 0 whole"},
		"a query":                     {[]Rule{{Queries: map[string]string{"a": "*"}}, {}}, ""},
		"any value of a query":        {[]Rule{{Queries: map[string]string{"a": "*"}}, {Queries: map[string]string{"a": "1", "b": "2"}}}, "* by 0 whole"},
		"a field":                     {[]Rule{{Headers: map[string][]string{"A": {"1"}}}, {Headers: map[string][]string{"a": {"1", "2"}}}}, ""},
		"more values of a field":      {[]Rule{{Headers: map[string][]string{"A": {"1", "2"}}}, {Headers: map[string][]string{"a": {"1"}}}}, "* by 0 whole"},
		"a port":                      {[]Rule{{Hosts: []string{"a:1"}}, {Hosts: []string{"a"}}}, ""},
		"without a port and priority": {[]Rule{{Hosts: []string{"a"}, Priority: 1}, {Hosts: []string{"a:1"}}}, "a:1 by 0 whole"},
	} {
		list, err := FindHidden(c.rules)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, h := range list {
			if got = fmt.Sprintf("%s%s by %d", h.Host, h.Path.Text, h.By); h.Whole {
				got += " whole"
			}
			if h.Rule != 1 {
				t.Errorf("%s: rule %d is hidden", name, h.Rule)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestHostForms: a name with the root's dot is the same, and the scheme's port need not be said.
func TestHostForms(t *testing.T) {
	tab, err := New([]Rule{{Hosts: []string{"a.com:443"}}, {Hosts: []string{"b.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		host, port string
		want       int
	}{{"a.com", "443", 0}, {"a.com", "80", -1}, {"a.com:443", "80", 0}, {"a.com:8443", "443", -1}, {"b.com.", "80", 1}, {"b.com.:8080", "80", 1}} {
		if got := tab.Find(&Query{Host: []byte(k.host), Port: k.port, Path: []byte("/")}); got != k.want {
			t.Errorf("%s, port %s: %d, want %d", k.host, k.port, got, k.want)
		}
	}
}

// TestFronts: prefix.* comes after *.suffix and before *, and the longer one first.
func TestFronts(t *testing.T) {
	tab, err := New([]Rule{{}, {Hosts: []string{"mail.*"}}, {Hosts: []string{"mail.eu.*"}}, {Hosts: []string{"*.a.com"}},
		{Hosts: []string{"mail.b.com"}, Paths: []Path{{Prefix, "/x"}}},
		{Hosts: []string{"mail.*:8443"}}, {Hosts: []string{"*.c.com"}, Paths: []Path{{Prefix, "/only"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		host, path string
		want       int
	}{
		{"mail.example.org", "/", 1}, {"MAIL.x", "/", 1}, {"mail.", "/", 0}, {"mail", "/", 0}, {"mails.x", "/", 0}, {"x.mail.y", "/", 0},
		{"mail.eu.x", "/", 2}, {"mail.a.com", "/", 3}, {"mail.b.com", "/x", 4}, {"mail.b.com", "/", 1}, {"mail.x:8443", "/", 5},
		{"mail.c.com", "/only", 6}, {"mail.c.com", "/", 1}, {"other.c.com", "/", 0},
	} {
		if got := tab.Find(&Query{Host: []byte(k.host), Port: "80", Path: []byte(k.path)}); got != k.want {
			t.Errorf("%s%s: %d, want %d", k.host, k.path, got, k.want)
		}
	}
	hidden, err := FindHidden([]Rule{{Hosts: []string{"mail.*"}}, {Hosts: []string{"mail.x"}, Paths: []Path{{Prefix, "/a"}}, Priority: -1},
		{Hosts: []string{"web.x"}, Priority: -1}})
	if err != nil || len(hidden) != 1 || hidden[0].Rule != 1 {
		t.Errorf("%+v %v", hidden, err)
	}
}
