//go:build tools

// Package tools pins the linters.
package tools

import _ "honnef.co/go/tools/cmd/staticcheck"
