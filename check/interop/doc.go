// Package interop checks the load engine's exact counts against third-party servers: requests
// sent equal requests completed, failed or in flight at the end, and match the server's own log.
// It contains only tests.
package interop
