package proxy

import "ceiling/internal/hist"

// counters are one loop's; only the loop writes them. Others get a copy that the loop makes
// between two turns.
type counters struct {
	clientCounts
	upstreamCounts

	statuses             [6]uint64 // by class; 0 is none
	received, sent       uint64    // bytes of bodies
	tunnels, ownErrors   uint64
	filesServed          uint64
	spliced, pipesMissed uint64
	logDropped           uint64

	latency hist.Hist // first byte of the request to the last of the response, ns
}

// clientCounts counts what clients do and what is refused to them.
type clientCounts struct {
	accepted, acceptErrors, acceptPauses  uint64
	requests, secureRequests              uint64
	badRequests, unrouted, loopsDetected  uint64
	limitedRequests, limitedConnections   uint64
	idleClosed, idleEvicted               uint64
	headerTimeouts, bodyTimeouts          uint64
	requestTimeouts, clientTimeouts       uint64
	clientResets, badRecords, resetFloods uint64
}

// upstreamCounts counts the outcomes of attempts at destinations.
type upstreamCounts struct {
	connects, connectErrors, connectTimeouts    uint64
	reuses, stale, idlePeersClosed, unsolicited uint64
	badResponses, responseTimeouts              uint64
	cutResponses                                uint64
	peerResets, peerRefused, peerAways          uint64
	peerFaults                                  uint64
	retries, retriesRefused, fallbacks          uint64
	noDestination, queued, queueFull            uint64
}

// add adds another loop's counters.
func (c *counters) add(o *counters) {
	theirs := o.fields()
	for i, f := range c.fields() {
		*f.at += *theirs[i].at
	}
	for i := range c.statuses {
		c.statuses[i] += o.statuses[i]
	}
	c.latency.Merge(&o.latency)
}

type counterField struct {
	name, help string
	at         *uint64
}

// fields returns the counters with their names.
func (c *counters) fields() []counterField {
	return []counterField{
		{"client_connections_total", "connections accepted", &c.accepted},
		{"accept_errors_total", "connections that could not be accepted", &c.acceptErrors},
		{"accept_pauses_total", "times that the limit of connections was reached", &c.acceptPauses},
		{"requests_total", "request heads read", &c.requests},
		{"tls_requests_total", "of these, requests of clients with TLS", &c.secureRequests},
		{"received_body_bytes_total", "bytes of request bodies", &c.received},
		{"sent_body_bytes_total", "bytes of response bodies", &c.sent},
		{"bad_requests_total", "requests that were refused because they are malformed", &c.badRequests},
		{"bad_responses_total", "malformed responses of destinations", &c.badResponses},
		{"unrouted_requests_total", "requests that no location matched", &c.unrouted},
		{"rate_limited_requests_total", "requests beyond a rate limit", &c.limitedRequests},
		{"limited_connections_total", "connections beyond the limit of their address", &c.limitedConnections},
		{"idle_clients_closed_total", "client connections closed after the keep-alive time", &c.idleClosed},
		{"idle_clients_evicted_total", "idle client connections closed to make room for others", &c.idleEvicted},
		{"header_timeouts_total", "request heads that took too long", &c.headerTimeouts},
		{"body_timeouts_total", "request bodies that took too long", &c.bodyTimeouts},
		{"request_timeouts_total", "requests that took too long as a whole, or in a queue", &c.requestTimeouts},
		{"client_timeouts_total", "clients that did not take their response", &c.clientTimeouts},
		{"client_resets_total", "clients that disconnected before their response", &c.clientResets},
		{"tls_bad_records_total", "clients with a TLS failure after the handshake", &c.badRecords},
		{"http2_floods_total", "clients with HTTP/2 that were closed for what they reset", &c.resetFloods},
		{"upstream_connects_total", "connections opened to destinations", &c.connects},
		{"upstream_connect_errors_total", "connects that failed", &c.connectErrors},
		{"upstream_connect_timeouts_total", "connects that took too long", &c.connectTimeouts},
		{"upstream_reuses_total", "requests on a connection that was open", &c.reuses},
		{"upstream_stale_total", "reused connections that had just been closed", &c.stale},
		{"upstream_idle_closed_total", "idle connections that the destination closed", &c.idlePeersClosed},
		{"upstream_unsolicited_total", "connections dropped for unsolicited bytes", &c.unsolicited},
		{"upstream_response_timeouts_total", "destinations that took too long", &c.responseTimeouts},
		{"upstream_cut_responses_total", "responses that could not be completed", &c.cutResponses},
		{"upstream_http2_resets_total", "streams that destinations reset", &c.peerResets},
		{"upstream_http2_refused_total", "streams that destinations refused, or did not take any more", &c.peerRefused},
		{"upstream_http2_goaways_total", "connections that destinations with HTTP/2 took no more requests on", &c.peerAways},
		{"upstream_http2_faults_total", "connections closed since the destination broke HTTP/2", &c.peerFaults},
		{"retries_total", "attempts after the first", &c.retries},
		{"retries_refused_total", "attempts that the budget for retries did not allow", &c.retriesRefused},
		{"fallbacks_total", "requests given to a fallback", &c.fallbacks},
		{"no_destination_total", "requests for which no destination was usable", &c.noDestination},
		{"queued_requests_total", "requests that waited for a connection", &c.queued},
		{"queue_full_total", "requests refused because a queue was full", &c.queueFull},
		{"tunnels_total", "connections that switched protocols", &c.tunnels},
		{"spliced_bytes_total", "bytes of bodies and tunnels that were passed on without a copy", &c.spliced},
		{"pipes_missed_total", "times that bytes were copied because all pipes were in use", &c.pipesMissed},
		{"loops_detected_total", "requests that came back to the location that had sent them", &c.loopsDetected},
		{"own_errors_total", "answers of 500 and above that the proxy made", &c.ownErrors},
		{"files_total", "answers from files", &c.filesServed},
		{"access_log_lines_dropped_total", "dropped log lines", &c.logDropped},
	}
}
