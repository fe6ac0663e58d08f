// Package store is the database of a measured server: the product pool and a few tables to write
// to, in SQLite, which is part of the program, or in PostgreSQL.
//
// Prepare creates and loads the database that a source names, once for all processes of a server;
// Open gives a process its connection pool and statements. Both databases use the same SQL
// (statement.go), so a difference between them is their own. Connecting and reporting are
// separate: sqlite.go and postgres.go; cluster.go starts our own PostgreSQL.
//
// An acknowledged write is durable, except those of Async, by design.
package store

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ceiling/server/backend"
)

// Options configure a process's use of its database. Open fills in the zero value.
type Options struct {
	Pool       int  // connections per process; 0: 10
	Unprepared bool // parse and plan every statement on execution
	Cached     bool // serve a product from memory after its first read
	NoSync     bool // commits do not wait for the disk: they survive a crash of the server, not of the machine

	GroupSize int           // writes per group commit; 0: 64
	GroupWait time.Duration // time to wait for them; 0: 2 ms
}

const (
	defaultPool      = 10
	defaultGroupSize = 64
	defaultGroupWait = 2 * time.Millisecond

	// asyncSize limits an asynchronous commit; asyncQueue limits the further acknowledged writes
	// that are not yet durable: beyond it, writes wait.
	asyncSize  = 256
	asyncQueue = 4096

	// RangeSize is the number of products returned by Range.
	RangeSize = 20
)

// A Product is a row of the pool.
type Product = backend.Product

// A Store is a process's connections to a prepared database. It is safe for concurrent use.
type Store struct {
	about   About
	source  string // see Status
	read    *sql.DB
	write   *sql.DB // same as read if the database allows several writers
	options Options
	rows    int
	// numbered: see kind.
	numbered bool
	brands   [][]byte
	all      statements
	cache    []atomic.Pointer[[]byte] // by id; nil without Options.Cached

	group, async *batcher
	process      int64        // this process's part of the ids
	written      atomic.Int64 // ids assigned
	commits      atomic.Int64
	alone        atomic.Int64 // single-write commits

	ctx   context.Context
	abort context.CancelFunc
}

// Open connects a process to a database created by Prepare. It opens all connections of the pool,
// so that a limit of the database shows before the first request. Brand names are quoted for
// JSON.
func Open(ctx context.Context, d *Database, brands [][]byte, o Options) (*Store, error) {
	o = o.completed()
	s := &Store{options: o, source: openSource(d.source), brands: brands, rows: d.rows, numbered: d.kind().numbered}
	s.ctx, s.abort = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	if s.read, s.write, err = d.kind().connect(d.source, o); err != nil {
		s.abort()
		return nil, err
	}
	if err := s.start(ctx, d); err != nil {
		s.Close()
		return nil, clarify(err)
	}
	return s, nil
}

func (o Options) completed() Options {
	if o.Pool == 0 {
		o.Pool = defaultPool
	}
	if o.GroupSize == 0 {
		o.GroupSize = defaultGroupSize
	}
	if o.GroupWait == 0 {
		o.GroupWait = defaultGroupWait
	}
	return o
}

// Check validates options.
func (o Options) Check() error {
	switch {
	case o.Pool < 0:
		return fmt.Errorf("a pool of %d connections: give 1 or more", o.Pool)
	case o.GroupSize < 0 || o.GroupSize > maxGroup:
		return fmt.Errorf("a group of %d writes: give 1 to %d", o.GroupSize, maxGroup)
	case o.GroupWait < 0:
		return fmt.Errorf("a group that waits %v: give 0 or more", o.GroupWait)
	}
	return nil
}

func (s *Store) start(ctx context.Context, d *Database) error {
	if err := fill(ctx, s.read, s.options.Pool); err != nil {
		return err
	}
	if err := s.all.prepare(ctx, s.read, s.write, !s.options.Unprepared); err != nil {
		return err
	}
	var err error
	if s.about, err = d.kind().describe(ctx, s.write); err != nil {
		return err
	}
	if s.process, err = claimProcess(ctx, s.write); err != nil {
		return err
	}
	if s.options.Cached {
		s.cache = make([]atomic.Pointer[[]byte], s.rows+1)
	}
	s.group = startBatcher(s, s.options.GroupSize, s.options.GroupWait, s.options.GroupSize)
	s.async = startBatcher(s, asyncSize, s.options.GroupWait, asyncQueue)
	return nil
}

// fill opens n connections at once and returns them to the pool.
func fill(ctx context.Context, db *sql.DB, n int) error {
	for i := range n {
		c, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		defer c.Close()
	}
	return nil
}

// claimProcess takes the next process number. Entry ids start with it, so processes need no
// coordination.
func claimProcess(ctx context.Context, db *sql.DB) (int64, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	var n int64
	if _, err := tx.ExecContext(ctx, "UPDATE counter SET n = n + 1 WHERE id = 0"); err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, "SELECT n FROM counter WHERE id = 0").Scan(&n); err != nil {
		return 0, err
	}
	return n, tx.Commit()
}

// Close writes what is acknowledged but not yet durable, and closes the connections: within half
// a second, even if the database does not respond.
func (s *Store) Close() {
	late := time.AfterFunc(flushWithin, s.abort)
	defer late.Stop()
	for _, b := range []*batcher{s.group, s.async} {
		if b != nil {
			b.stop()
		}
	}
	s.abort()
	_ = s.read.Close() // what is committed is committed
	_ = s.write.Close()
}

const flushWithin = 500 * time.Millisecond

// Abort fails every call that waits for the database.
func (s *Store) Abort() { s.abort() }

// Product returns the product for seed: one primary key lookup.
func (s *Store) Product(seed uint64) ([]byte, error) {
	id := 1 + choose(seed, s.rows)
	if s.cache == nil {
		return s.product(id)
	}
	if known := s.cache[id].Load(); known != nil {
		return *known, nil
	}
	body, err := s.product(id)
	if err == nil {
		s.cache[id].Store(&body)
	}
	return body, err
}

func (s *Store) product(id int) (body []byte, err error) {
	err = s.all.product.each(s.ctx, func(r *sql.Rows) error { return r.Scan(&body) }, id)
	if err == nil && body == nil {
		err = fmt.Errorf("product %d is missing", id)
	}
	return body, clarify(err)
}

// Range returns RangeSize consecutive products, starting with the one for seed.
func (s *Store) Range(seed uint64) ([]byte, error) {
	first := 1 + choose(seed, s.rows-RangeSize+1)
	b := make([]byte, 0, rangeBytes)
	b = fmt.Appendf(b, `{"count":%d,"products":[`, RangeSize)
	n := 0
	err := s.all.products.each(s.ctx, func(r *sql.Rows) error {
		var body sql.RawBytes
		if err := r.Scan(&body); err != nil {
			return err
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = append(b, body...)
		return nil
	}, first, first+RangeSize)
	if err == nil && n != RangeSize {
		err = fmt.Errorf("%d of %d products from %d on", n, RangeSize, first)
	}
	return append(b, "]}"...), clarify(err)
}

// rangeBytes is the buffer size for a range, whose products have 4.5 KB each.
const rangeBytes = 100 << 10

// Scan returns the number of products per brand and the sum of their prices, by a full table
// scan.
func (s *Store) Scan() ([]byte, error) {
	b := append([]byte(nil), `{"brands":[`...)
	n := 0
	err := s.all.brands.each(s.ctx, func(r *sql.Rows) error {
		var brand, count, cents int64
		if err := r.Scan(&brand, &count, &cents); err != nil {
			return err
		}
		if brand < 0 || brand >= int64(len(s.brands)) {
			return fmt.Errorf("brand %d is unknown", brand)
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = append(append(b, `{"brand":`...), s.brands[brand]...)
		b = strconv.AppendInt(append(b, `,"count":`...), count, 10)
		b = strconv.AppendInt(append(b, `,"cents":`...), cents, 10)
		b = append(b, '}')
		return nil
	})
	return append(b, "]}"...), clarify(err)
}

// Insert writes an entry in its own transaction.
func (s *Store) Insert(seed uint64) ([]byte, error) {
	e := s.entry(seed)
	if err := s.exec(&s.all.insert, e.id, e.product, e.quantity, e.note); err != nil {
		return nil, err
	}
	return e.answer(), nil
}

// InsertGroup writes an entry in a transaction shared with others: GroupSize, or those that
// arrive within GroupWait. It returns after the commit.
func (s *Store) InsertGroup(seed uint64) ([]byte, error) { return s.insertBy(s.group, seed, true) }

// InsertAsync passes an entry to the writer and returns: if the process dies before the commit,
// the entry is lost.
func (s *Store) InsertAsync(seed uint64) ([]byte, error) { return s.insertBy(s.async, seed, false) }

func (s *Store) insertBy(b *batcher, seed uint64, wait bool) ([]byte, error) {
	e := s.entry(seed)
	if err := b.submit(s.ctx, e, wait); err != nil {
		return nil, clarify(err)
	}
	return e.answer(), nil
}

// Update changes the stock of the product for seed: requests rarely hit the same row.
func (s *Store) Update(seed uint64) ([]byte, error) {
	id := 1 + choose(seed, s.rows)
	if err := s.exec(&s.all.update, id); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"product":%d}`, id), nil
}

// Count increments a counter, a single row for all requests.
func (s *Store) Count() ([]byte, error) {
	if err := s.exec(&s.all.count); err != nil {
		return nil, err
	}
	return []byte(`{"counter":1}`), nil
}

// exec executes a statement that changes one row, in its own transaction.
func (s *Store) exec(st *statement, args ...any) error {
	n, err := st.exec(s.ctx, args...)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows changed in place of 1", n)
	}
	if err != nil {
		return clarify(err)
	}
	s.commits.Add(1)
	s.alone.Add(1)
	return nil
}

// An entry is a row of the growing table.
type entry struct {
	id                int64
	product, quantity int
	note              string
}

// processBits leaves 2^32 entries per process, and 2^20 processes within JSON's exact integers.
const processBits = 32

// note is the text of an entry, which gives it the size of an order.
var note = strings.Repeat("one of the usual, please; ", 4) // read-only

func (s *Store) entry(seed uint64) entry {
	return entry{
		id: s.process<<processBits + s.written.Add(1), product: 1 + choose(seed, s.rows), quantity: 1 + rand.IntN(9), note: note,
	}
}

func (e *entry) answer() []byte { return fmt.Appendf(nil, `{"id":%d}`, e.id) }

// choose maps a seed that is uniform over 64 bits to an index below n.
func choose(seed uint64, n int) int { return int(seed % uint64(n)) }
