BEGIN TRANSACTION;
CREATE TABLE artifacts (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	work_id TEXT NOT NULL,
	url TEXT NOT NULL,
	sha256 TEXT NOT NULL,
	path TEXT NOT NULL,
	kind TEXT,
	bytes INTEGER,
	content_type TEXT,
	etag TEXT,
	last_modified TEXT,
	license TEXT,
	version TEXT,
	resolver TEXT,
	tier TEXT,
	run_id TEXT NOT NULL,
	stored_at FLOAT NOT NULL,
	UNIQUE (work_id, url, sha256)
);
INSERT INTO "artifacts" VALUES(1,'W1','https://a.org/x.pdf','abababababababababababababababababababababababababababababababab','PDF/x.pdf','pdf',1234,'application/pdf',NULL,NULL,NULL,NULL,'openalex','direct_oa','01RUN',1.79492402941799902914e+09);
CREATE TABLE attempts (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	ts FLOAT NOT NULL,
	run_id TEXT NOT NULL,
	resolver TEXT,
	url TEXT NOT NULL,
	verb TEXT NOT NULL,
	status TEXT NOT NULL,
	http_status INTEGER,
	content_type TEXT,
	elapsed_ms INTEGER,
	bytes_written INTEGER,
	content_length_hdr INTEGER,
	reason TEXT,
	extra TEXT NOT NULL,
	work_id TEXT,
	year INTEGER,
	tier TEXT,
	role TEXT,
	host TEXT,
	canonical_url TEXT,
	attempt INTEGER NOT NULL,
	retry_after_s FLOAT,
	cache_hit INTEGER NOT NULL,
	worker_id TEXT NOT NULL,
	seq INTEGER NOT NULL,
	UNIQUE (run_id, worker_id, seq)
);
INSERT INTO "attempts" VALUES(1,1793491200.0,'01RUN','openalex','https://a.org/x.pdf','GET','http-200',200,NULL,NULL,NULL,NULL,'ok','{}','W1',2024,NULL,NULL,NULL,NULL,1,NULL,0,'w',1);
CREATE TABLE catalog_entries (
	work_id TEXT NOT NULL,
	year INTEGER,
	title TEXT,
	doi TEXT,
	classification TEXT NOT NULL,
	reason TEXT NOT NULL,
	kind TEXT,
	url TEXT,
	resolver TEXT,
	tier TEXT,
	http_status INTEGER,
	path TEXT,
	sha256 TEXT,
	bytes INTEGER,
	content_type TEXT,
	license TEXT,
	version TEXT,
	html_paths TEXT NOT NULL,
	fallback_chain TEXT NOT NULL,
	retry_at FLOAT,
	run_id TEXT NOT NULL,
	config_hash TEXT NOT NULL,
	ttfp_ms INTEGER,
	requests INTEGER NOT NULL,
	finished_at FLOAT NOT NULL,
	meta TEXT NOT NULL,
	revision INTEGER NOT NULL,
	PRIMARY KEY (work_id),
	UNIQUE (revision)
);
INSERT INTO "catalog_entries" VALUES('W1',2024,'It''s; a title','10.1/x','success','ok','pdf','https://a.org/x.pdf','openalex','direct_oa',200,'PDF/x.pdf','abababababababababababababababababababababababababababababababab',1234,'application/pdf',NULL,NULL,'[]','[]',NULL,'01RUN','hash',NULL,0,1.79492402941799902914e+09,'{}',1);
CREATE TABLE exports (
	name TEXT NOT NULL,
	position INTEGER NOT NULL,
	updated_at FLOAT NOT NULL,
	PRIMARY KEY (name)
);
INSERT INTO "exports" VALUES('attempts',1,1.79492402942499971389e+09);
CREATE TABLE group_leases (
	grp TEXT NOT NULL,
	owner TEXT NOT NULL,
	until FLOAT NOT NULL,
	wanted_until FLOAT NOT NULL,
	PRIMARY KEY (grp)
);
CREATE TABLE hosts (
	host TEXT NOT NULL,
	robots_body TEXT,
	robots_status INTEGER,
	robots_fetched_at FLOAT,
	closed_until FLOAT,
	note TEXT,
	breaker TEXT,
	breaker_until FLOAT,
	updated_at FLOAT NOT NULL,
	PRIMARY KEY (host)
);
INSERT INTO "hosts" VALUES('a.org','User-agent: *',200,1.79492402942600536345e+09,NULL,NULL,NULL,NULL,1.79492402942600536345e+09);
CREATE TABLE meta (
	"key" TEXT NOT NULL,
	value INTEGER NOT NULL,
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('schema_version',4);
INSERT INTO "meta" VALUES('revision',1);
CREATE TABLE queue (
	work_id TEXT NOT NULL,
	year INTEGER,
	priority INTEGER NOT NULL,
	record TEXT NOT NULL,
	plan_hash TEXT NOT NULL,
	state TEXT NOT NULL,
	not_before FLOAT NOT NULL,
	next_group TEXT,
	progress TEXT,
	tries INTEGER NOT NULL,
	lease_owner TEXT,
	lease_until FLOAT,
	wait_reason TEXT,
	updated_at FLOAT NOT NULL,
	PRIMARY KEY (work_id)
);
INSERT INTO "queue" VALUES('W1',2024,2024,'{"title":"It''s; a title"}','p','done',0.0,NULL,NULL,0,NULL,NULL,NULL,1.79492402941799902914e+09);
INSERT INTO "queue" VALUES('W2',2023,2023,'{}','p','queued',4000000000.0,'arxiv','{"tried":["u"]}',0,NULL,NULL,'pace',1.79492402941799902914e+09);
INSERT INTO "queue" VALUES('W3',NULL,0,'{}','p','queued',0.0,NULL,NULL,0,NULL,NULL,NULL,1.7949240294050037861e+09);
CREATE TABLE run_works (
	run_id TEXT NOT NULL,
	work_id TEXT NOT NULL,
	PRIMARY KEY (run_id, work_id),
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
)
 WITHOUT ROWID

;
INSERT INTO "run_works" VALUES('01RUN','W1');
INSERT INTO "run_works" VALUES('01RUN','W2');
INSERT INTO "run_works" VALUES('01RUN','W3');
CREATE TABLE runs (
	run_id TEXT NOT NULL,
	kind TEXT NOT NULL,
	started_at FLOAT NOT NULL,
	finished_at FLOAT,
	config_hash TEXT NOT NULL,
	scope TEXT NOT NULL,
	summary TEXT,
	progress TEXT,
	PRIMARY KEY (run_id)
);
INSERT INTO "runs" VALUES('01RUN','pull',1.79492402940299224847e+09,NULL,'hash','{"years":[2024]}',NULL,NULL);
CREATE TABLE set_aside (
	id INTEGER NOT NULL,
	run_id TEXT,
	source TEXT NOT NULL,
	item TEXT NOT NULL,
	reason TEXT NOT NULL,
	ts FLOAT NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX queue_ready ON queue (priority DESC, work_id, next_group) WHERE state = 'queued' AND not_before = 0;
CREATE INDEX queue_waiting ON queue (not_before, year) WHERE state IN ('queued', 'retry') AND not_before > 0;
CREATE INDEX queue_counts ON queue (year, state, not_before, lease_until);
CREATE INDEX queue_ready_year ON queue (year, priority DESC, work_id, next_group) WHERE state = 'queued' AND not_before = 0;
CREATE INDEX queue_leased ON queue (lease_owner, lease_until, year) WHERE state = 'leased';
CREATE INDEX attempts_run ON attempts (run_id, id);
CREATE INDEX attempts_year ON attempts (year, id);
CREATE INDEX artifacts_run ON artifacts (run_id);
CREATE INDEX entries_year ON catalog_entries (year, classification, reason, kind);
CREATE INDEX entries_run ON catalog_entries (run_id, classification, reason, kind);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('attempts',1);
INSERT INTO "sqlite_sequence" VALUES('artifacts',1);
COMMIT;
