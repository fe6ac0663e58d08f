//go:build linux

package bus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
)

// organisation runs a NATS server as somebody's own: from a configuration file
// with the accounts in testdata, and a certificate of another CA.
func organisation(t *testing.T) (port int, ca string) {
	t.Helper()
	accounts, err := os.ReadFile("testdata/accounts.conf")
	if err != nil {
		t.Fatal(err)
	}
	const field = "accounts {\n  ceiling_field { jetstream: enabled, users: [ { user: fielddriver, password: $CEILING_DRIVER } ] }\n"
	return natstest.Start(t, strings.Replace(string(accounts), "accounts {\n", field, 1))
}

func TestTheConfigurationForAnOwnCluster(t *testing.T) {
	t.Parallel()
	shown, err := os.ReadFile("testdata/accounts.conf")
	if err != nil {
		t.Fatal(err)
	}
	if want := configuration("lab", []string{"me", "other"}); string(shown) != want {
		t.Errorf("testdata/accounts.conf is not\n%s", want)
	}
}

func TestAnOrganisationsOwnNATS(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	port, ca := organisation(t)
	ctx := within(t)
	at := func(user string) bus.Own {
		return bus.Own{URL: fmt.Sprintf("tls://%s@127.0.0.1:%d", user, port), CA: ca}
	}
	keys := map[string]*bus.Key{}
	for _, name := range []string{"lab", "field"} {
		file := filepath.Join(t.TempDir(), "key.json")
		if _, err := bus.MakeKey(file, name); err != nil {
			t.Fatal(err)
		}
		if _, err := bus.MakeKey(file, name); err == nil || !strings.Contains(err.Error(), "agents trust its key") {
			t.Errorf("a key over a key: %v", err)
		}
		k, err := bus.LoadKey(file)
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = k
	}
	driver, err := bus.DriveOwn(ctx, at("driver:d-secret"), keys["lab"], bus.Watch{Trouble: func(err error) { t.Error("driver:", err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	for range 2 { // the second finds everything there
		if err := driver.Furnish(ctx, 16<<20, bus.LeaseTTL); err != nil {
			t.Fatal(err)
		}
	}
	token := keys["lab"].Token().String()
	me, err := bus.JoinOwn(ctx, at("me:a-secret"), token, "me", bus.Watch{Trouble: func(err error) {
		if !strings.Contains(err.Error(), "$JS.API.STREAM.CREATE") { // which it tries below
			t.Error("me:", err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer me.Close()
	o := agent(t, me)
	if found, err := driver.Discover(ctx, time.Second); err != nil || len(found) != 1 || found[0].Name != "me" {
		t.Fatalf("found %v, %v", found, err)
	}
	line, err := driver.Line("me", session(o))
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	if answer, err := line.Do(ctx, "start", "r1", nil); err != nil || string(answer) != "start r1 " {
		t.Errorf("%q, %v", answer, err)
	}
	publish(ctx, t, me, "r1", 10)
	exactly(ctx, t, driver, "r1", 1, 10)
	if err := driver.PutSpec(ctx, "r1", []byte("spec")); err != nil {
		t.Fatal(err)
	}
	if err := driver.OpenProfiles(ctx, "me", 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := me.PutProfile(ctx, "r1", "cpu", []byte("profile")); err != nil {
		t.Error(err)
	}
	if b, err := driver.GetProfile(ctx, "me", "r1", "cpu"); err != nil || string(b) != "profile" {
		t.Errorf("%q, %v", b, err)
	}
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := me.Furnish(soon, 1<<20, time.Second); err == nil {
		t.Error("an agent makes streams")
	}
	ownStrangers(t, at, ca, port, token, keys)
}

func ownStrangers(t *testing.T, at func(string) bus.Own, ca string, port int, token string, keys map[string]*bus.Key) {
	ctx := within(t)
	refuse := func(what string, o bus.Own, token, want string) {
		t.Helper()
		c, err := bus.JoinOwn(ctx, o, token, "me", bus.Watch{})
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	refuse("a wrong password", at("me:wrong"), token, "refuses")
	refuse("no CA", bus.Own{URL: at("me:a-secret").URL}, token, "certificate")
	refuse("no token", at("me:a-secret"), "", "empty")
	refuse("no credentials file", bus.Own{URL: at("me").URL, CA: ca, Creds: "/nowhere"}, token, "/nowhere")
	// The driver of another bed has another account: it sees nobody.
	other, err := bus.DriveOwn(ctx, at("fielddriver:d-secret"), keys["field"], bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if found, err := other.Discover(ctx, 100*time.Millisecond); err != nil || len(found) != 0 {
		t.Errorf("the other bed finds %v, %v", found, err)
	}
	if _, err := other.Acquire(ctx, "x"); err == nil {
		t.Error("the other bed's bucket is not there, and yet")
	}
	// And an agent of this one tries everything.
	pem, err := os.ReadFile(ca)
	if err != nil || len(pem) == 0 {
		t.Fatal(err)
	}
	violations := make(chan string, 100)
	nc, err := nats.Connect(at("me:a-secret").URL, nats.RootCAs(ca), nats.NoReconnect(), nats.CustomInboxPrefix("_INBOX.lab.me"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	tryEverything(t, nc, violations, "lab")
	if _, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", port), nats.NoReconnect()); err == nil || errors.Is(err, nats.ErrNoServers) {
		t.Errorf("nobody, with no password: %v", err)
	}
}

// configuration is the account of a test bed for the configuration file of an
// organisation's own NATS server, with a user for the driver and one for each
// agent, who have their passwords from the environment. Each test bed has an
// account of its own; where NATS is run with an operator and credentials files,
// the same permissions go into the users' JWTs.
func configuration(bed string, agents []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "accounts {\n  ceiling_%s {\n    jetstream: enabled\n    users: [\n", strings.ReplaceAll(bed, "-", "_"))
	fmt.Fprintf(&b, "      { user: driver, password: $CEILING_DRIVER }\n")
	for _, name := range agents {
		p := bus.AgentPermissions(bed, name)
		fmt.Fprintf(&b, "      { user: %q, password: $CEILING_AGENT, permissions: {\n", name)
		fmt.Fprintf(&b, "        publish: [\n          %s\n        ]\n", quoted(p.Publish))
		fmt.Fprintf(&b, "        subscribe: [\n          %s\n        ]\n", quoted(p.Subscribe))
		fmt.Fprintf(&b, "        allow_responses: { max: %d, expires: \"%v\" }\n      } }\n", 1, 5*time.Minute)
	}
	b.WriteString("    ]\n  }\n}\n")
	return b.String()
}

func quoted(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = `"` + s + `"`
	}
	return strings.Join(q, "\n          ")
}
