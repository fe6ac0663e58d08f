package behind

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"ceiling/internal/lazy"
	"ceiling/internal/pause"
	"ceiling/internal/text"
	"ceiling/record"
)

// observerName is our sessions' application name, which excludes them from the counts.
const observerName = "ceiling observer"

// postgres is our connection to a database.
type postgres struct {
	config *pgconn.Config
	conn   *pgconn.PgConn // nil: lost
	wal    bool           // it has pg_stat_wal with the columns we read (14 to 17)
	timed  bool           // it times WAL fsyncs
	unseen int            // sessions whose activity we may not see

	last counts
}

// counts are since the start of the database's statistics.
type counts struct {
	Commits, Rollbacks, WALSyncs, WALBytes int64
	WALSyncMs                              float64
}

// CheckDatabase returns what is wrong with a database URL, or nil; it does not connect.
func CheckDatabase(source string) error {
	if !strings.HasPrefix(source, "postgres://") && !strings.HasPrefix(source, "postgresql://") {
		return errors.New("give PostgreSQL's URL: postgres://USER@HOST/DATABASE")
	}
	if _, err := pgconn.ParseConfig(source); err != nil {
		return errors.New(text.Line(err.Error())) // pgconn leaves the password out
	}
	return nil
}

// Shown returns a database URL without its password.
func Shown(source string) string {
	u, err := url.Parse(source)
	if err != nil {
		return "postgres://…"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(name, "password") {
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// openPostgres connects and reads the settings.
func openPostgres(ctx context.Context, source string) (*postgres, *record.Database, error) {
	if err := CheckDatabase(source); err != nil {
		return nil, nil, err
	}
	config, err := pgconn.ParseConfig(source)
	if err != nil {
		return nil, nil, err
	}
	config.ConnectTimeout = openWithin
	config.RuntimeParams["application_name"] = observerName
	config.RuntimeParams["statement_timeout"] = strconv.FormatInt(answerIn.Milliseconds(), 10)
	p := &postgres{config: config}
	if err := p.connect(ctx); err != nil {
		return nil, nil, err
	}
	about, err := p.describe(ctx)
	if err == nil {
		_, err = p.sample(ctx)
	}
	if err != nil {
		p.close()
		return nil, nil, errors.New(text.Line(err.Error()))
	}
	return p, about, nil
}

func (p *postgres) connect(ctx context.Context) (err error) {
	if p.conn, err = pgconn.ConnectConfig(ctx, p.config.Copy()); err != nil {
		p.conn = nil
		return errors.New(text.Line(err.Error()) + hint(err))
	}
	return nil
}

func (p *postgres) close() {
	if p.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerIn)
	defer cancel()
	_ = p.conn.Close(ctx) // nothing was written
	p.conn = nil
}

// hidden says why sessions are not visible, "" if they are.
func (p *postgres) hidden() string {
	if p.unseen == 0 {
		return ""
	}
	return fmt.Sprintf("%d sessions of other users are hidden from %s: GRANT pg_monitor TO %s", p.unseen, p.config.User, p.config.User)
}

// settingNames are the settings that decide what a commit costs and guarantees.
func settingNames() []string {
	return []string{"synchronous_commit", "fsync", "wal_sync_method", "full_page_writes", "commit_delay", "commit_siblings", "shared_buffers",
		"max_connections", "synchronous_standby_names", "track_wal_io_timing"}
}

func (p *postgres) describe(ctx context.Context) (*record.Database, error) {
	d := &record.Database{Product: "PostgreSQL " + p.conn.ParameterStatus("server_version"), Address: p.address()}
	text, err := p.query(ctx, "SELECT json_object_agg(name, current_setting(name)) FROM pg_settings WHERE name IN ('"+
		strings.Join(settingNames(), "', '")+"')")
	if err != nil {
		return nil, err
	}
	var values map[string]string
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	for _, name := range settingNames() {
		if value := values[name]; value != "" {
			d.Settings = append(d.Settings, record.DatabaseSetting{Name: name, Value: value})
		}
	}
	d.MaxConnections, _ = strconv.Atoi(values["max_connections"]) // 0: unknown
	p.timed = values["track_wal_io_timing"] == "on"
	_, err = p.query(ctx, "SELECT wal_sync, wal_sync_time, wal_bytes FROM pg_stat_wal")
	p.wal = err == nil
	return d, nil
}

// query returns the first column of the first row of a statement. It is sent by the simple protocol:
// a proxy in between (pgbouncer) may not keep prepared statements.
func (p *postgres) query(ctx context.Context, statement string) ([]byte, error) {
	results, err := p.conn.Exec(ctx, statement).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 || len(results[0].Rows) == 0 {
		return nil, errors.New("the database returned no row")
	}
	return results[0].Rows[0][0], nil
}

// address returns its address, without the user.
func (p *postgres) address() string {
	if strings.HasPrefix(p.config.Host, "/") {
		return p.config.Host
	}
	return net.JoinHostPort(p.config.Host, strconv.Itoa(int(p.config.Port))) + "/" + p.config.Database
}

// sessions queries the other clients' sessions in this database.
const sessions = `WITH s AS MATERIALIZED (SELECT state, wait_event_type, wait_event FROM pg_stat_activity
 WHERE coalesce(backend_type, 'client backend') = 'client backend' AND datname = current_database() AND application_name <> '` + observerName + `')
SELECT json_build_object('sessions', (SELECT count(*) FROM s), 'active', (SELECT count(*) FROM s WHERE state = 'active'),
 'idle', (SELECT count(*) FROM s WHERE state LIKE 'idle in transaction%'), 'unseen', (SELECT count(*) FROM s WHERE state IS NULL),
 'waits', (SELECT json_agg(w) FROM (SELECT coalesce(wait_event_type, 'CPU') AS type, coalesce(wait_event, '') AS event, count(*) AS sessions
  FROM s WHERE state = 'active' GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 16) w),
 'commits', d.xact_commit, 'rollbacks', d.xact_rollback`

const (
	ofDatabase = ` FROM pg_stat_database d WHERE d.datname = current_database()`

	logCounts = `, 'walsyncs', w.wal_sync, 'walsyncms', w.wal_sync_time, 'walbytes', w.wal_bytes::bigint`
	ofLog     = ` FROM pg_stat_wal w, pg_stat_database d WHERE d.datname = current_database()`
)

// lockQueues queries the locks that sessions wait for. A session that waits for another transaction
// because of a row holds the row's own lock (src/backend/access/heap/README.tuplock), which names
// the table.
const lockQueues = `WITH l AS MATERIALIZED (SELECT * FROM pg_locks),
w AS (SELECT w.*, coalesce(w.relation, r.relation) AS of, CASE WHEN r.relation IS NOT NULL THEN (r.relation, r.page, r.tuple)::text END AS place
 FROM l w LEFT JOIN l r ON r.pid = w.pid AND r.locktype = 'tuple' WHERE NOT w.granted)
SELECT coalesce(json_agg(q), '[]') FROM (SELECT w.locktype AS kind, coalesce(max(c.relname), '') AS relation, count(DISTINCT w.pid) AS waiting,
 count(DISTINCT w.place) AS rows, coalesce(max(a.query), '') AS blocker
 FROM w LEFT JOIN pg_class c ON c.oid = w.of
 LEFT JOIN l h ON h.granted AND h.pid <> w.pid AND h.locktype = w.locktype AND
  (w.locktype = 'transactionid' AND h.transactionid = w.transactionid OR w.locktype = 'relation' AND h.relation = w.relation)
 LEFT JOIN pg_stat_activity a ON a.pid = h.pid
 GROUP BY w.locktype, w.of ORDER BY 3 DESC LIMIT 8) q`

// answer is the result of the first query.
type answer struct {
	Sessions, Active, Idle, Unseen int
	Waits                          []record.SessionWait
	counts
}

// sample queries once. Counts in the row are differences to the previous sample.
func (p *postgres) sample(ctx context.Context) (row record.DatabaseRow, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	begun := time.Now()
	query := sessions + `)` + ofDatabase
	if p.wal {
		query = sessions + logCounts + `)` + ofLog
	}
	text, err := p.query(ctx, query)
	if err != nil {
		return row, err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return row, err
	}
	row.Sessions, row.Active, row.IdleInTransaction, row.Waits = a.Sessions, a.Active, a.Idle, a.Waits
	if waitsForLock(a.Waits) {
		if text, err = p.query(ctx, lockQueues); err != nil {
			return row, err
		}
		if err := json.Unmarshal(text, &row.Locks); err != nil {
			return row, err
		}
		row.Locks = joined(row.Locks)
	}
	row.TookNs = time.Since(begun).Nanoseconds()
	row.Commits, row.Rollbacks = a.Commits-p.last.Commits, a.Rollbacks-p.last.Rollbacks
	row.WALSyncs, row.WALBytes, row.WALSyncNs = -1, -1, -1
	if p.wal {
		row.WALSyncs, row.WALBytes = a.WALSyncs-p.last.WALSyncs, a.WALBytes-p.last.WALBytes
		if p.timed {
			row.WALSyncNs = int64((a.WALSyncMs - p.last.WALSyncMs) * 1e6)
		}
	}
	p.last, p.unseen = a.counts, a.Unseen
	return row, nil
}

// joined merges the waits for the same statement: the table is unknown for some sessions that wait
// for a row, since they have requested the row before and wait for its next owner.
func joined(list []record.LockQueue) (all []record.LockQueue) {
	for _, q := range list {
		q.Blocker = withoutLiterals(q.Blocker)
		at := slices.IndexFunc(all, func(o record.LockQueue) bool {
			return o.Kind == q.Kind && o.Blocker == q.Blocker && (o.Relation == q.Relation || o.Relation == "" || q.Relation == "")
		})
		if at < 0 {
			all = append(all, q)
			continue
		}
		o := &all[at]
		o.Relation = cmp.Or(o.Relation, q.Relation)
		o.Rows, o.Waiting = o.Rows+q.Rows, o.Waiting+q.Waiting
	}
	slices.SortStableFunc(all, func(a, b record.LockQueue) int { return cmp.Compare(b.Waiting, a.Waiting) })
	return all
}

func waitsForLock(waits []record.SessionWait) bool {
	for _, w := range waits {
		if w.Type == "Lock" {
			return true
		}
	}
	return false
}

// askPostgres polls until the end, and reconnects to a lost database.
func (w *Watch) askPostgres(ctx context.Context, now func() int64, told func(record.ObservedRow)) {
	at := clock{host: w.host, now: now, last: now()}
	for known := false; ; {
		rest, err := every, error(nil)
		if w.postgres.conn == nil {
			known = false
			err = w.postgres.connect(ctx)
		}
		var row record.DatabaseRow
		if err == nil {
			row, err = w.postgres.sample(ctx)
		}
		tNs := now()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.lose("database", err, tNs, true)
			w.postgres.close()
			rest = again
		default:
			row.ObservedHead = at.head(record.KindDatabase, tNs)
			if known { // else the counts are since the database's start
				told(&row)
			}
			known = true
			rest = max(rest, min(seldom, restful*time.Duration(row.TookNs)))
		}
		if !pause.For(ctx, rest) {
			return
		}
	}
}

// hint says how to fix an error.
func hint(err error) string {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return ""
	}
	switch said.Code { // Appendix A of PostgreSQL's manual
	case "53300":
		return "; its max_connections is reached: leave one for the observer"
	case "28P01", "28000":
		return "; check the user and the password"
	case "3D000":
		return "; check the database's name"
	}
	return ""
}

// blockerMost bounds a stored statement, in bytes.
const blockerMost = 120

var literal = lazy.Regexp(`(?s)'(?:[^']|'')*'|\$[A-Za-z_]*\$.*?\$[A-Za-z_]*\$|\b[0-9][0-9A-Za-z.]*\b`)

// withoutLiterals returns a statement with ? in place of its literals: names of people, keys.
func withoutLiterals(query string) string {
	short := strings.Join(strings.Fields(literal().ReplaceAllString(parameter().ReplaceAllString(query, "?"), "?")), " ")
	if len(short) > blockerMost {
		short = strings.ToValidUTF8(short[:blockerMost], "") + "…"
	}
	if strings.Contains(short, "'") { // it was truncated within a literal (track_activity_query_size)
		short = short[:strings.IndexByte(short, '\'')] + "?…"
	}
	return short
}

var parameter = lazy.Regexp(`\$[0-9]+`)
