package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// linked reads an experiment with a link, and validates it.
func linked(t *testing.T, text string) (Experiment, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := ReadExperiment(path)
	if err != nil {
		return e, err
	}
	e.Complete(1)
	return e, e.Check()
}

const behindALink = "kind: factorial\nservers: [{serve: \"s {addr}\"}]\nrequests: [{path: /}]\n"

// A level changes what it names of the experiment's link; a rate and a number of packets replace each other.
func TestLinkOfLevels(t *testing.T) {
	e, err := linked(t, behindALink+`link: {rate: 400Mbit/s, burst: 100k, delay: 1ms, queues: 2}
factorial:
  factors:
    - name: link
      levels:
        - {name: as it is}
        - link: {rate: 1Gbit/s}
        - link: {packets: 33k}
        - link: {delay: 5ms}
`)
	if err != nil {
		t.Fatal(err)
	}
	own := Link{Rate: "400Mbit/s", Burst: 100_000, Delay: Time(time.Millisecond), Queues: 2}
	faster, packets, far := own, own, own
	faster.Rate, far.Delay = "1Gbit/s", Time(5*time.Millisecond)
	packets.Rate, packets.Packets, packets.Burst = "", 33_000, 100_000
	for i, want := range []Link{own, faster, packets, far} {
		c := e.Cell([]int{i})
		if c.Link != want {
			t.Errorf("level %d: %+v, want %+v", i, c.Link, want)
		}
	}
	for i, want := range []string{"as it is", "1.00 Gbit/s", "33.0k packets/s", "5ms each way"} {
		if got := e.Factorial.Factors[0].Label(i); got != want {
			t.Errorf("level %d is called %q, want %q", i, got, want)
		}
	}
	if !e.Linked() {
		t.Error("it has no link")
	}
	if e, err := linked(t, "kind: sweep\nservers: [{serve: \"s {addr}\"}]\nrequests: [{path: /}]\n"); err != nil || e.Linked() {
		t.Errorf("%v, linked %v", err, e.Linked())
	}
}

func TestLinksThatCannotBe(t *testing.T) {
	sweep := "kind: sweep\nservers: [{serve: \"s {addr}\"}]\nrequests: [{path: /}]\n"
	running := strings.Replace(sweep, "serve: \"s {addr}\"", "url: \"http://127.0.0.1:1\"", 1)
	levels := func(text string) string {
		return behindALink + "factorial: {factors: [{name: a, levels: " + text + "}]}"
	}
	inAnother := strings.Replace(levels("[{pipelining: 1}, {pipelining: 2}]"), "{factors", "{interface: eth1, factors", 1)
	twice := strings.Replace(levels("[{link: {rate: 1M}}, {link: {rate: 2M}}]"), "}]}]}",
		"}]}, {name: b, levels: [{link: {rate: 3M}}, {pipelining: 2}]}]}", 1)
	replaced := strings.Replace(twice, "{link: {rate: 3M}}", "{link: {packets: 3k}}", 1)
	for text, want := range map[string]string{
		sweep + "link: {rate: 50MB/s}":                       "link.rate: invalid link speed",
		sweep + "link: {rate: 1kbit/s}":                      "link.rate: 1kbit/s: must be 8 kbit/s or more",
		sweep + "link: {rate: 1Mbit/s, packets: 5}":          "give one of them",
		sweep + "link: {burst: 66k}":                         "link.burst: it needs a rate",
		sweep + "link: {rate: 1Mbit/s, burst: 100}":          "link.burst: 100 bytes",
		sweep + "link: {delay: 11s}":                         "link.delay: 11s: must be 0s–10s",
		sweep + "link: {queues: 300}":                        "link.queues: 300",
		sweep + "link: {speed: 1G}":                          "speed",
		sweep + "link: {queues: 1}\nload: {link: 1Gbps}":     "load.link: it is for a link of unknown speed",
		sweep + "link: {queues: 1}\nload: {unix: /s}":        "a unix socket crosses no link",
		running + "link: {queues: 1}":                        "runs already and is not at the other end",
		levels("[{link: {queues: 1}}, {link: {queues: 2}}]"): "link.queues: the queues are the same in all runs",
		levels("[{link: {rate: 1M}}, {link: {rate: fast}}]"): "invalid link speed",
		inAnother + "\nlink: {queues: 1}":                    "with link the interface is the namespace's",
		twice:                                                "link.rate is set by a already",
		replaced:                                             "link.rate is set by a already",
	} {
		if _, err := linked(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}
