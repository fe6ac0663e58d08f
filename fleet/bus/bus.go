// Package bus carries what several machines say to each other: NATS, embedded
// or an organisation's own, and what keeps strangers out of it.
package bus
