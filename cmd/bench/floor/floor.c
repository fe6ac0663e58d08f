/*
 * The floor of a load generator: what this kernel takes to move the bytes of a closed loop with io_uring. It
 * keeps no time per request, no histogram and no statuses, and follows no schedule; it only looks for the end of
 * each response. A generator that measures cannot cost less.
 *
 * usage: floor PORT PATH CONNECTIONS PIPELINING SECONDS GATHER
 *
 * One thread. A connection sends its next PIPELINING requests when all its responses are in. Each wait is for
 * GATHER completions. The result is one line of JSON.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECES = 1024, PIECE_BYTES = 16 << 10, GROUP = 0, FROM_SEND = -1 };

struct loop {
	struct io_uring ring;
	struct io_uring_buf_ring *pieces;
	char *memory;
	char *requests;	 /* PIPELINING of them */
	int length;	 /* of all of them, bytes */
	int pipelining;
	long response;	 /* bytes of one, if pipelined: all are of the first's length */
	long *awaited;	 /* by connection: bytes still to come; 0: the next starts with a head */
	unsigned long answered;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Bytes of the response that begins here, or 0 if its head is not whole or has no Content-Length. */
static long response_bytes(const char *b, size_t n)
{
	static const char field[] = "Content-Length: ";
	const char *body = memmem(b, n, "\r\n\r\n", 4);
	const char *length = memmem(b, n, field, sizeof field - 1);

	if (!body || !length || length > body)
		return 0;
	return body + 4 - b + strtol(length + sizeof field - 1, NULL, 10);
}

static int dial(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}

/* The first response of a connection: what all have in common. */
static long learn(int fd, const char *request, size_t n)
{
	char b[64 << 10];
	size_t have = 0;
	long want = 0;

	if (send(fd, request, n, 0) != (ssize_t)n)
		die("send");
	while (want == 0 || have < (size_t)want) {
		ssize_t got = recv(fd, b + have, sizeof b - have, 0);

		if (got <= 0)
			die("the first response");
		have += got;
		want = response_bytes(b, have);
	}
	return want;
}

static struct io_uring_sqe *entry(struct loop *l)
{
	struct io_uring_sqe *s = io_uring_get_sqe(&l->ring);

	if (!s) {
		io_uring_submit(&l->ring);
		s = io_uring_get_sqe(&l->ring);
	}
	return s;
}

static void receive(struct loop *l, int i)
{
	struct io_uring_sqe *s = entry(l);

	io_uring_prep_recv_multishot(s, i, NULL, 0, 0);
	s->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
	s->buf_group = GROUP;
	io_uring_sqe_set_data64(s, i);
}

static void ask(struct loop *l, int i)
{
	struct io_uring_sqe *s = entry(l);

	l->awaited[i] = l->pipelining > 1 ? l->response * l->pipelining : 0;
	io_uring_prep_send(s, i, l->requests, l->length, 0);
	s->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
	io_uring_sqe_set_data64(s, FROM_SEND);
}

static void open_ring(struct loop *l, const int *fds, int n)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
		.cq_entries = 16 << 10,
	};
	struct io_uring_buf_reg reg = { .ring_entries = PIECES, .bgid = GROUP };

	if (io_uring_queue_init_params(4096, &l->ring, &p) || io_uring_register_files(&l->ring, fds, n) ||
	    io_uring_register_ring_fd(&l->ring) < 0)
		die("io_uring");
	l->pieces = aligned_alloc(4096, PIECES * sizeof(struct io_uring_buf));
	l->memory = aligned_alloc(4096, (size_t)PIECES * PIECE_BYTES);
	reg.ring_addr = (unsigned long)l->pieces;
	if (!l->pieces || !l->memory || io_uring_register_buf_ring(&l->ring, &reg, 0))
		die("receive buffers");
	io_uring_buf_ring_init(l->pieces);
	for (int k = 0; k < PIECES; k++)
		io_uring_buf_ring_add(l->pieces, l->memory + (size_t)k * PIECE_BYTES, PIECE_BYTES, k, PIECES - 1, k);
	io_uring_buf_ring_advance(l->pieces, PIECES);
}

/* One completion of a receive: counts, and asks again once the connection has its responses. */
static void received(struct loop *l, const struct io_uring_cqe *c, int place)
{
	int i = c->user_data, piece = c->flags >> IORING_CQE_BUFFER_SHIFT;
	char *b = l->memory + (size_t)piece * PIECE_BYTES;

	if (c->res <= 0 || !(c->flags & IORING_CQE_F_BUFFER)) {
		fprintf(stderr, "floor: receive: %d\n", c->res);
		exit(1);
	}
	if (l->awaited[i] == 0 && (l->awaited[i] = response_bytes(b, c->res)) == 0) {
		fprintf(stderr, "floor: a response without a whole head and Content-Length in its first piece\n");
		exit(1);
	}
	io_uring_buf_ring_add(l->pieces, b, PIECE_BYTES, piece, PIECES - 1, place);
	if (!(c->flags & IORING_CQE_F_MORE))
		receive(l, i);
	l->awaited[i] -= c->res;
	if (l->awaited[i] <= 0) {
		l->answered += l->pipelining;
		ask(l, i);
	}
}

static void turn(struct loop *l, unsigned gather)
{
	struct io_uring_cqe *c;
	unsigned head, reaped = 0;
	int given = 0;

	io_uring_submit_and_wait(&l->ring, gather);
	io_uring_for_each_cqe(&l->ring, head, c) {
		reaped++;
		if (c->user_data == (__u64)FROM_SEND) {
			fprintf(stderr, "floor: send: %d\n", c->res);
			exit(1);
		}
		received(l, c, given++);
	}
	io_uring_buf_ring_advance(l->pieces, given);
	io_uring_cq_advance(&l->ring, reaped);
}

int main(int argc, char **argv)
{
	struct loop l = { 0 };
	char request[1024];
	double seconds, began, took;
	int connections, one, *fds;
	unsigned turns = 0;

	if (argc != 7) {
		fprintf(stderr, "usage: floor PORT PATH CONNECTIONS PIPELINING SECONDS GATHER\n");
		return 2;
	}
	connections = atoi(argv[3]);
	l.pipelining = atoi(argv[4]);
	seconds = atof(argv[5]);
	one = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n\r\n", argv[2], argv[1]);
	l.length = one * l.pipelining;
	l.requests = malloc(l.length);
	l.awaited = calloc(connections, sizeof *l.awaited);
	fds = calloc(connections, sizeof *fds);
	for (int k = 0; k < l.pipelining; k++)
		memcpy(l.requests + k * one, request, one);
	for (int i = 0; i < connections; i++)
		fds[i] = dial(atoi(argv[1]));
	l.response = learn(fds[0], request, one);
	open_ring(&l, fds, connections);
	for (int i = 0; i < connections; i++) {
		receive(&l, i);
		ask(&l, i);
	}
	began = clock_s();
	while (++turns % 64 || clock_s() < began + seconds)
		turn(&l, atoi(argv[6]));
	took = clock_s() - began;
	printf("{\"requests\": %lu, \"elapsed_s\": %.6f, \"turns\": %u}\n", l.answered, took, turns);
	return 0;
}
