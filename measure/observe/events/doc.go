//go:build linux

// Package events finds where the time of a request goes, from the kernel's own events at
// both ends of its connection, in short bursts.
//
// During a burst four BPF programs are attached to tracepoints (program.go). Each event
// has the time and the sequence numbers of its socket. Both ends of a connection use the
// same sequence numbers, so they give six curves that only rise:
//
//	requests   client has written  ≥  server has received  ≥  server has read
//	answers    server has written  ≥  client has received  ≥  client has read
//
// If a connection has one request at a time, the request is in the furthest place that any
// part of it has reached:
//
//	AtClient   the client's socket holds bytes that the client has not read
//	ToClient   the server has written what the client's socket does not hold yet
//	AtServer   the server's socket holds bytes that the server has not read
//	ToServer   the client has written what the server's socket does not hold yet
//	InServer   none of these, after the server has read and until it writes
//	Generator  none of these, after the client has read and until it writes
//
// A write counts from the moment the kernel begins to take it over, a read when it has
// taken the bytes, an arrival when the socket has queued them; bytes that the sender's
// kernel holds back (Nagle, a full window) are in transit. An answer in several parts is
// InServer between two of them: only the next part or the next request shows whether more
// was to come. In an open loop Generator is the time without a request.
//
// The sum of all requests' time in a place divided by the number of requests that began is
// the mean, even if requests are longer than a burst (Little's law); the histograms have
// whole requests only, so they lack those.
//
// If a connection may have several requests in flight, the area between two curves is the
// sum of the time that each byte spent in the place: divided by the bytes of a request (of
// an answer) it is the mean number of requests there. What is inside the server has no
// bytes; it is the rest of those in flight. Generator has the answers read since the client
// last wrote.
//
// Nothing is guessed across a gap. An event that contradicts the previous one, on the same
// socket and in the same burst, excludes the connection from that burst: an event was lost,
// or two connections share their ports.
package events
