package selftest

import "testing"

// TestServersBehindAreToldApart: the CPU of a server that the subject asks, its disk,
// and a pool of connections to one that has both to spare are three answers.
func TestServersBehindAreToldApart(t *testing.T) {
	areNamed(t, Options{Seed: 3, Only: []string{"downstream-busy", "downstream-sync", "downstream-pool"}})
}
