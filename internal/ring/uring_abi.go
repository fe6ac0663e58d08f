//go:build linux

package ring

// Constants of include/uapi/linux/io_uring.h; neither package syscall nor
// x/sys has them.
const (
	setupCQSize       = 1 << 3
	setupClamp        = 1 << 4
	setupSubmitAll    = 1 << 7
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
	setupNoSQArray    = 1 << 16 // Linux 6.6

	featSingleMmap = 1 << 0
	featExtArg     = 1 << 8
	featMinTimeout = 1 << 15 // Linux 6.12

	enterGetEvents      = 1 << 0
	enterExtArg         = 1 << 3
	enterRegisteredRing = 1 << 4

	registerRingFDs   = 20
	unregisterRingFDs = 21
	registerPbufRing  = 22

	opPollAdd     = 6
	opAccept      = 13
	opAsyncCancel = 14
	opConnect     = 16
	opClose       = 19
	opSend        = 26
	opRecv        = 27

	sqeBufferSelect   = 1 << 5
	sqeCQESkipSuccess = 1 << 6

	ioprioPollFirst = 1 << 0 // IORING_RECVSEND_POLL_FIRST
	ioprioMultishot = 1 << 1 // IORING_RECV_MULTISHOT
	ioprioAcceptMul = 1 << 0 // IORING_ACCEPT_MULTISHOT

	cancelAll = 1 << 0
	cancelAny = 1 << 2

	cqeBuffer = 1 << 0
	cqeMore   = 1 << 1

	sqCQOverflow = 1 << 1 // completions overflowed the queue

	sqOffsetSQEs = 0x10000000
)

// sqe is struct io_uring_sqe.
type sqe struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32
	off      uint64
	addr     uint64
	length   uint32
	opFlags  uint32
	userData uint64
	bufGroup uint16
	person   uint16
	spliceFD int32
	addr3    uint64
	_        uint64
}

// cqe is struct io_uring_cqe.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// sqOffsets is struct io_sqring_offsets.
type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
	userAddr                                                    uint64
}

// cqOffsets is struct io_cqring_offsets.
type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32
	userAddr                                                    uint64
}

// uringParams is struct io_uring_params.
type uringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sq                                                                     sqOffsets
	cq                                                                     cqOffsets
}

// eventsArg is struct io_uring_getevents_arg.
type eventsArg struct {
	sigmask     uint64
	sigmaskSize uint32
	minWaitUs   uint32
	ts          uint64
}

// bufEntry is struct io_uring_buf; the ring's tail overlays resv of entry 0.
type bufEntry struct {
	addr   uint64
	length uint32
	id     uint16
	resv   uint16
}

// ringUpdate is struct io_uring_rsrc_update.
type ringUpdate struct {
	offset uint32
	_      uint32
	data   uint64
}
