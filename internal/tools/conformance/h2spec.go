package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// h2specOf runs all cases, including strict ones, against address. A case that fails twice is an
// error.
func h2specOf(address string) error {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	c := config.Config{Host: host, Port: port, Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000, TLS: true, Insecure: true,
		Strict: true}
	all, failed, err := cases(c)
	if err != nil {
		return err
	}
	bad := 0
	var lines []string
	for _, t := range failed {
		id := fmt.Sprintf("%s/%d", t.Parent.ID(), t.Result.Sequence)
		c.Sections = []string{id} // retry: on a shared machine a timeout may be early
		if ran, again, err := cases(c); err != nil {
			return err
		} else if ran == 1 && len(again) == 0 {
			lines = append(lines, fmt.Sprintf("  %s %s: passed at the second attempt", id, t.Desc))
			continue
		}
		bad++
		lines = append(lines, fmt.Sprintf("  %s %s: %s", id, t.Desc, strings.ReplaceAll(fmt.Sprint(t.Result.Error), "\n", "; ")))
	}
	fmt.Printf("%d of %d\n%s\n", all-bad, all, strings.Join(lines, "\n"))
	if bad > 0 {
		return fmt.Errorf("%d cases failed", bad)
	}
	return nil
}

// cases runs the cases that c names, and returns how many ran and which failed or were skipped.
func cases(c config.Config) (ran int, failed []*spec.TestCase, err error) {
	silent, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return 0, nil, err
	}
	defer silent.Close()
	stdout := os.Stdout
	os.Stdout = silent // h2spec prints its progress
	defer func() { os.Stdout = stdout }()
	for _, g := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		g.Test(&c)
		ran += g.PassedCount + g.FailedCount + g.SkippedCount
		failed = append(failed, failures(g)...)
	}
	return ran, failed, nil
}

// failures returns the cases of g and its groups that failed or were skipped.
func failures(g *spec.TestGroup) []*spec.TestCase {
	var list []*spec.TestCase
	for _, tests := range [][]*spec.TestCase{g.Tests, g.StrictTests} {
		for _, t := range tests {
			if t.Result != nil && (t.Result.Failed || t.Result.Skipped) {
				list = append(list, t)
			}
		}
	}
	for _, sub := range g.Groups {
		list = append(list, failures(sub)...)
	}
	return list
}
