package server

import (
	"io"
	"log"
	"sync/atomic"
)

// complaintsMost is how many lines a server prints of what is wrong with its clients. A load generator that speaks the
// wrong protocol brings thousands a second.
const complaintsMost = 10

// complaints is a log of what frameworks say of their clients, one line a call.
type complaints struct {
	to    io.Writer
	lines atomic.Int64
}

// newComplaints is the log of one server, on to.
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
