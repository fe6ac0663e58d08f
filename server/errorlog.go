package server

import (
	"io"
	"log"
	"sync/atomic"
)

// complaintsMost is how many lines a server prints about client errors. A load generator with the
// wrong protocol causes thousands a second.
const complaintsMost = 10

// complaints logs the frameworks' messages about client errors, one line per call.
type complaints struct {
	to    io.Writer
	lines atomic.Int64
}

// newComplaints returns the log of one server, writing to to.
func newComplaints(to io.Writer) *log.Logger { return log.New(&complaints{to: to}, "", log.LstdFlags) }

func (c *complaints) Write(line []byte) (int, error) {
	switch n := c.lines.Add(1); {
	case n < complaintsMost:
		return c.to.Write(line)
	case n == complaintsMost:
		_, err := io.WriteString(c.to, string(line)+"(further lines like these are not printed)\n")
		return len(line), err
	}
	return len(line), nil
}
