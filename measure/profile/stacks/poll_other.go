//go:build !amd64

package stacks

// pollNumber: later architectures only have ppoll, and this program does not read its second
// argument.
const pollNumber = -1
