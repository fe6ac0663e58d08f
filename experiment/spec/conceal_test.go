package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"ceiling/internal/secret"
)

func testHider() *secret.Hider { return secret.New(func() []byte { return []byte("a key") }) }

// secretsIn are those of the specs below.
func secretsIn(text string) []string {
	var list []string
	for _, s := range []string{"Alpha1", "Bravo2", "Charly3", "Delta4", "Echo5", "Foxtrot6", "Golf7", "Hotel8"} {
		if strings.Contains(text, s) {
			list = append(list, s)
		}
	}
	return list
}

func TestConcealedSpec(t *testing.T) {
	s := Spec{
		Targets: []Target{{
			Method: "POST", URL: "http://h/x?access_token=Alpha1&id=7", Weight: 1, Body: []byte("Bravo2"),
			Header: []Field{{"Authorization", "Bearer Charly3"}, {"Cookie", "a=Delta4"}, {"Accept", "*/*"}, {"Content-Length", "6"}},
		}},
		Condition: Condition{Connections: 1, Pipelining: 1}, Duration: 1e9, Timeout: 1e9,
		Settings: Settings{Engine: EngineAuto}, Common: Common{Pprof: "http://h/debug/pprof/?token=Echo5"},
	}
	before := fmt.Sprintf("%+v", s)
	c := s.Concealed(testHider())
	text, err := json.Marshal(c)
	if err != nil || len(secretsIn(string(text))) > 0 {
		t.Errorf("%v in %s, %v", secretsIn(string(text)), text, err)
	}
	for _, want := range []string{"id=7", "*/*", `"bytes":6`, "hidden-"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if after := fmt.Sprintf("%+v", s); after != before {
		t.Errorf("the spec itself is changed: %s", after)
	}
	if again := c.Concealed(secret.Plain()); !reflect.DeepEqual(again, c) {
		t.Errorf("hidden twice: %+v", again)
	}
	if err := c.Check(); err != nil {
		t.Errorf("what is hidden is no spec any more: %v", err)
	}
	if same := s.Concealed(testHider()); !reflect.DeepEqual(same, c) {
		t.Error("the same is not hidden alike")
	}
}

func TestConcealedExperiment(t *testing.T) {
	e := Experiment{
		Kind: KindSweep, Question: "does Foxtrot6 hold?",
		Servers: []Server{
			{Name: "own", Serve: "API_KEY=Alpha1 ./srv --password Bravo2", Env: []string{"DB_PASSWORD=Foxtrot6", "GOMAXPROCS=1"}},
		},
		Requests: []Mix{
			{MixRequest: MixRequest{Path: "/x?token=Charly3", Header: []string{"Cookie: a=Delta4"}, Body: "Echo5"}},
			{Mix: []MixRequest{{Path: "/a"}, {Path: "/b", Body: "@file", Content: []byte("Golf7")}}},
		},
		Load: Load{Lists: Lists{Connections: []Count{1, 2}}, Common: Common{Pprof: "http://h/?token=Hotel8", Dial: Dial{Proxy: "http://ada:Foxtrot6@p.test:1"}}},
	}
	e.Complete(1)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	c, hidden := e.Concealed(testHider())
	text, err := json.Marshal(c)
	if err != nil || !hidden || len(secretsIn(string(text))) > 0 {
		t.Errorf("hidden %v; %v in %s, %v", hidden, secretsIn(string(text)), text, err)
	}
	for _, want := range []string{`"@file"`, "GOMAXPROCS=1", `"bytes":5`, `"POST"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if err := c.Check(); err != nil {
		t.Errorf("what is hidden is no experiment any more: %v", err)
	}
	if again, more := c.Concealed(secret.Plain()); more || !reflect.DeepEqual(again, c) {
		t.Errorf("hidden twice (%v): %+v", more, again)
	}
	if before, _ := json.Marshal(e); len(secretsIn(string(before))) < 6 {
		t.Errorf("the experiment itself is changed: %s", before)
	}
	harmless := Experiment{Servers: []Server{{URL: "http://h"}},
		Requests: []Mix{{MixRequest: MixRequest{Path: "/read?id=1", Header: []string{"Accept: */*"}}}}}
	if c, hidden := harmless.Concealed(testHider()); hidden || !reflect.DeepEqual(c, harmless) {
		t.Errorf("nothing is secret here: %+v", c)
	}
}
