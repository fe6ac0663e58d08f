//go:build !linux

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
)

// needsLinux stands for a verb that other systems do not have.
func needsLinux(verb string) *cobra.Command {
	return &cobra.Command{Use: verb, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
		return command.Usage(fmt.Errorf("ceiling %s needs Linux, and this is %s", verb, runtime.GOOS))
	}}
}

func newProve(*shell) *cobra.Command  { return needsLinux("prove") }
func newDoctor(*shell) *cobra.Command { return needsLinux("doctor") }
func newTune(*shell) *cobra.Command   { return needsLinux("tune") }

func hidden(*shell) []*cobra.Command { return nil }

func otherPrograms(*command.Shell) (list []*cobra.Command) {
	for _, verb := range []string{"proxy", "race", "journal", "selftest"} {
		list = append(list, needsLinux(verb))
	}
	return list
}
