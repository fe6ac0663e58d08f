//go:build !amd64

package stacks

// pollNumber: later architectures have ppoll alone, and this program does not read
// their second argument.
const pollNumber = -1
