// Package interop holds the load engine to exact counts against servers that others
// wrote: what was sent is what was completed, failed or in flight at the end, and as
// much as the server's own log has. It is tests alone.
package interop
