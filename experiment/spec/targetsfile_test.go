package spec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ceiling/internal/needs"
)

// bodies stands for the files beside a targets file.
func bodies(name string) ([]byte, error) {
	switch name {
	case "a.json":
		return []byte(`{"a":1}`), nil
	case "ten":
		return make([]byte, 10<<20), nil
	}
	return nil, errors.New("body: open " + name + ": no such file")
}

func TestParseTargets(t *testing.T) {
	get := func(url string, weight int) Target { return Target{Method: "GET", URL: url, Weight: weight} }
	for _, c := range []struct {
		name, text string
		want       []Target
	}{
		{"one line", "GET http://h/", []Target{get("http://h/", 1)}},
		{"no blank line between", "GET http://h/a\nGET http://h/b\n", []Target{get("http://h/a", 1), get("http://h/b", 1)}},
		{"all there is", "\ufeff# a mix\r\n\r\n# weight: 3\r\nPOST http://h/a\r\nA: 1\r\n# another: comment\r\nB:2\r\n@a.json\r\n\r\nGET http://h/b\r\n", []Target{
			{Method: "POST", URL: "http://h/a", Header: []Field{{"A", "1"}, {"B", "2"}}, Body: []byte(`{"a":1}`), Weight: 3},
			get("http://h/b", 1),
		}},
		{"weights", "##  Weight :2\n\nGET http://h/a\n# weight of the world\n#weight:5\nPURGE\thttp://h/b", []Target{
			get("http://h/a", 2), {Method: "PURGE", URL: "http://h/b", Weight: 5}}},
		{"json", `{"method":"POST","url":"http://h/a","header":{"B":["1","2"],"A":["3"]},"body":"eyJhIjoxfQ==","weight":7}
 {"method":"GET","url":"http://h/b"}

`, []Target{
			{Method: "POST", URL: "http://h/a", Header: []Field{{"B", "1"}, {"B", "2"}, {"A", "3"}}, Body: []byte(`{"a":1}`), Weight: 7},
			get("http://h/b", 1),
		}},
	} {
		got, err := parseTargets([]byte(c.text), "t", bodies)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func TestParseTargetsRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "t: no target in it; write a line such as GET http"},
		{"# GET http://h/\n", "t: no target in it"},
		{"http://h/", `t:1: "http://h/" does not begin a target; write METHOD URL`},
		{"get http://h/", "t:1: "},
		{"GET http://h/ HTTP/1.1", "t:1: 3 words where METHOD URL are two"},
		{"GET ftp://h/", "t:1: URL \"ftp://h/\": unknown scheme"},
		{"GET http://h/\nA", "t:2: header \"A\" has no colon"},
		{"GET http://h/\n\nA: b", "t:3: \"A: b\" does not begin a target"},
		{"POST http://h/\n@a.json\nA: b", "t:3: \"A: b\" does not begin a target; write METHOD URL, as in GET http://localhost:8080/ (header lines"},
		{"POST http://h/\n@", "t:2: the body file's name is missing"},
		{"POST http://h/\n@no", "t:2: body: open no: no such file"},
		{"@a.json", "t:1: "},
		{"# weight: 0\nGET http://h/", `t:1: weight "0" is not a whole number from 1`},
		{"# weight: 1.5\nGET http://h/", "write # weight: 3"},
		{"# weight: 2\n# weight: 3\nGET http://h/", "t:2: a second weight for one target; the first is on line 1"},
		{"GET http://h/\n# weight: 2\nA: b", "t:3: put the weight on the line above METHOD URL"},
		{"GET http://h/\n# weight: 2\n\n", "t:2: no target follows the weight"},
		{strings.Repeat("POST http://h/\n@ten\n\n", 7), "t:20: the bodies up to here are more than"},
		{strings.Repeat("GET http://h/\n", TargetsMax+1), "t:100001: more than 100000 targets"},
		{"GET http://h/a b", "(a blank in a URL is written %20)"},
		{"GET http://h/\nGET http://h/b\n\nGET http://i/", "t:4: http://i:80 is not on the first target's address http://h:80"},
		{"GET http://h/\n\nGET http://h/\nUpgrade: x\n", "t:3: header Upgrade"},
		{"# weight: 999983\nGET http://h/\n" + strings.Repeat("# weight: 1000000\nGET http://h/\n", 4), "t: one round of the mix has 4999983 requests"},
		{"{", "t:1: unexpected EOF; write {"},
		{"{}", "t:1: method or url is missing"},
		{"{\"method\":\"GET\",\"url\":\"http://h/\"}\n{\"method\":\"GET\",\"url\":\"http://h/\",\"wieght\":2}",
			`t:2: json: unknown field "wieght"; write {`},
		{`{"method":"GET","url":"http://h/"} {}`, "t:1: something follows the object"},
		{`{"method":"G T","url":"http://h/"}`, `method "G T" is not a word`},
		{`{"method":"GET","url":"http://h/","weight":0}`, "weight 0: must be 1"},
		{`{"method":"GET","url":"http://h/","header":{"A":"b"}}`, `header "A" is not a list`},
		{`{"method":"GET","url":"http://h/","header":["A"]}`, "header is not an object"},
		{`{"method":"GET","url":"http://h/","header":{"A":["\u0000"]}}`, "control character"},
		{`{"method":"GET","url":"http://h/","body":"?"}`, "illegal base64"},
		{"{\"method\":\"GET\",\"url\":\"http://h/\xff\"}", "t:1: not UTF-8"},
		{`{"method":"GET","url":"/"}`, "t:1: URL \"/\": the host is missing"},
	} {
		_, err := parseTargets([]byte(c.text), "t", bodies)
		checkError(t, quoteShort(c.text), err, c.want)
	}
}

func TestReadTargetsFile(t *testing.T) {
	needs.Time(t)
	dir := t.TempDir()
	read := func(path string) ([]Target, error) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return ReadTargets(f, path, dir)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	absolute := write("abs.txt", "absolute")
	write("rel.txt", "relative")
	path := write("targets", fmt.Sprintf("POST http://h/\n@rel.txt\n\nPOST http://h/\n@%s\n", absolute))
	got, err := read(path)
	if err != nil || len(got) != 2 || string(got[0].Body) != "relative" || string(got[1].Body) != "absolute" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.Truncate(path, TargetsFileMax+1); err != nil {
		t.Fatal(err)
	}
	_, err = read(path)
	checkError(t, "big file", err, "more than 67108864 bytes")
}

func FuzzParseTargets(f *testing.F) {
	for _, s := range []string{
		"# weight: 3\nPOST http://h/a\nA: 1\n@a.json\n\nGET http://h/b",
		`{"method":"POST","url":"http://h/a","header":{"B":["1","2"]},"body":"eyJhIjoxfQ==","weight":7}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		targets, err := parseTargets(data, "t", bodies)
		if err != nil {
			if targets != nil || !strings.HasPrefix(err.Error(), "t:") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%d targets beside the error %q", len(targets), err)
			}
			return
		}
		for _, target := range targets {
			_, _, _, err := ParseTarget(target.URL)
			if err != nil || target.Weight < 1 || target.Weight > WeightMax || !isToken(target.Method) {
				t.Errorf("let through %+v: %v", target, err)
			}
		}
	})
}

// Equal requests are one target, from standard input as from a file.
func TestEqualTargetsAreOne(t *testing.T) {
	text := "GET http://h/a\n\nGET http://h/b\nX: 1\n\nGET http://h/a\n\n# weight: 3\nGET http://h/a\n\nGET http://h/b\n"
	got, err := ReadTargets(strings.NewReader(text), "standard input", "")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, one := range got {
		rows = append(rows, fmt.Sprintf("%s %d×%d", one.URL, len(one.Header), one.Weight))
	}
	if want := "[http://h/a 0×5 http://h/b 1×1 http://h/b 0×1]"; fmt.Sprint(rows) != want {
		t.Errorf("%v, want %s", rows, want)
	}
}
