//go:build linux

package bus_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
)

// TestAnOrganisationsOwnNATS runs a server from a configuration file with the accounts in testdata, and a
// certificate of another CA.
func TestAnOrganisationsOwnNATS(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	accounts, err := os.ReadFile("testdata/accounts.conf")
	if err != nil {
		t.Fatal(err)
	}
	const field = "accounts {\n  ceiling_field { jetstream: enabled, users: [ { user: fielddriver, password: $CEILING_DRIVER } ] }\n"
	address, ca := natstest.Start(t, strings.Replace(string(accounts), "accounts {\n", field, 1))
	at := func(user string) bus.Access { return bus.Access{Bed: "lab", URL: address(user), CA: ca} }
	ctx := natstest.Within(t)
	driver, err := bus.Drive(ctx, at("driver:d-secret"), bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	for range 2 { // the second finds everything there
		if err := driver.Furnish(ctx, bus.LeaseTTL); err != nil {
			t.Fatal(err)
		}
	}
	me, err := bus.Join(ctx, at("me:a-secret"), "me", bus.Watch{Say: func(line string) { t.Error("me:", line) }})
	if err != nil {
		t.Fatal(err)
	}
	defer me.Close()
	agent(t, me)
	if found, err := driver.Agents(ctx); err != nil || len(found) != 1 || found[0].Name != "me" {
		t.Fatalf("found %v, %v", found, err)
	}
	if answer, err := driver.Ask(ctx, "me", []byte("x")); err != nil || string(answer) != "did x" {
		t.Errorf("%q, %v", answer, err)
	}
	for what, c := range map[string]struct {
		as   bus.Access
		want string
	}{
		"a wrong password":    {at("me:wrong"), "refuses"},
		"no CA":               {bus.Access{Bed: "lab", URL: address("me:a-secret")}, "certificate"},
		"no test bed":         {bus.Access{URL: address("me:a-secret"), CA: ca}, "test bed"},
		"no credentials file": {bus.Access{Bed: "lab", URL: address("me"), CA: ca, Creds: "/nowhere"}, "/nowhere"},
	} {
		if conn, err := bus.Join(ctx, c.as, "me", bus.Watch{}); err == nil {
			t.Errorf("%s: it is in", what)
			conn.Close()
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	// The driver of another bed has another account: it sees nobody.
	other, err := bus.Drive(ctx, bus.Access{Bed: "field", URL: address("fielddriver:d-secret"), CA: ca}, bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if found, err := other.Agents(ctx); err == nil || len(found) != 0 {
		t.Errorf("the other bed finds %v, %v", found, err)
	}
	if _, err := other.Acquire(ctx, "x"); err == nil {
		t.Error("the other bed's bucket is not there, and yet")
	}
	// And an agent of this one tries everything.
	violations := make(chan string, 100)
	nc, err := nats.Connect(address("me:a-secret"), nats.RootCAs(ca), nats.NoReconnect(), nats.CustomInboxPrefix("_INBOX.lab.me"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	tryEverything(t, nc, violations, "lab", "me", "other")
	_, port, _ := strings.Cut(address(""), "@")
	if _, err := nats.Connect("nats://"+port, nats.NoReconnect()); err == nil || errors.Is(err, nats.ErrNoServers) {
		t.Errorf("nobody, with no password: %v", err)
	}
}
