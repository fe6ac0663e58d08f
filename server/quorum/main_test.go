package quorum

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(ReplicaEnv); text != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := Serve(ctx, text, os.Stdout)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	for env, do := range map[string]func() error{
		fullEnv: fillDisk, parentEnv: func() error { return parent(os.Getenv(parentEnv)) },
	} {
		if os.Getenv(env) != "" {
			if err := do(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // they wait for the most part: for elections
		panic(err)
	}
	os.Exit(m.Run())
}
