// Package testbed is what the commands of several machines share: where a controller keeps its state,
// how to reach an organisation's own NATS in its place, and how an agent gets its token.
package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
	"ceiling/measure/fleet/bus"
	"ceiling/record"
)

// TokenEnv holds the token if no flag does: unlike an argument, it is not visible in the process
// list.
const TokenEnv = "CEILING_TOKEN"

// JoinWithin is the timeout of a first connection.
const JoinWithin = 30 * time.Second

// ExternalConfig is the file, in a controller's directory, that says how to reach an external NATS.
const ExternalConfig = "own.json"

// OwnFlags say how to reach an external NATS.
type OwnFlags struct{ bus.Access }

func (o *OwnFlags) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.URL, "nats", "", "your own NATS server, instead of ceiling fleet controller")
	f.StringVar(&o.Creds, "creds", "", "its credentials file")
	f.StringVar(&o.CA, "ca", "", "CA of its certificates, PEM (default: the system's)")
}

func (o *OwnFlags) Check() error {
	if o.URL == "" && (o.Creds != "" || o.CA != "") {
		return errors.New("--creds and --ca are for your own NATS; give --nats URL as well")
	}
	return nil
}

// Dir is the directory of a controller's state: next to the runs, unless one is given.
func Dir(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	store, err := record.DefaultStore(os.Getenv)
	if err != nil {
		return "", command.Usage(fmt.Errorf("%w: --controller DIR", err))
	}
	return filepath.Join(filepath.Dir(store.Dir), "controller"), nil
}

// Drive connects to the controller of a directory, or to the external NATS prepared there.
func Drive(ctx context.Context, dir string, w bus.Watch) (*bus.Conn, error) {
	access := bus.Access{}
	b, err := os.ReadFile(filepath.Join(dir, ExternalConfig))
	if errors.Is(err, os.ErrNotExist) {
		access.State, err = dir, nil
	} else if err == nil {
		err = json.Unmarshal(b, &access)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ExternalConfig), err)
	}
	return bus.Drive(ctx, access, w)
}

// LocalTime formats a local time to the minute.
func LocalTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
