CREATE TABLE meta (
	key TEXT COLLATE "C" NOT NULL,
	value BIGINT NOT NULL,
	PRIMARY KEY (key)
);
CREATE TABLE queue (
	work_id TEXT COLLATE "C" NOT NULL,
	year INTEGER,
	priority INTEGER NOT NULL,
	record TEXT COLLATE "C" NOT NULL,
	plan_hash TEXT COLLATE "C" NOT NULL,
	state TEXT COLLATE "C" NOT NULL,
	not_before FLOAT NOT NULL,
	next_group TEXT COLLATE "C",
	progress TEXT COLLATE "C",
	tries INTEGER NOT NULL,
	lease_owner TEXT COLLATE "C",
	lease_until FLOAT,
	wait_reason TEXT COLLATE "C",
	updated_at FLOAT NOT NULL,
	PRIMARY KEY (work_id)
);
CREATE INDEX queue_ready ON queue (priority DESC, work_id, next_group) WHERE state = 'queued' AND not_before = 0;
CREATE INDEX queue_waiting ON queue (not_before, year) WHERE state IN ('queued', 'retry') AND not_before > 0;
CREATE INDEX queue_counts ON queue (year, state, not_before, lease_until);
CREATE INDEX queue_ready_year ON queue (year, priority DESC, work_id, next_group) WHERE state = 'queued' AND not_before = 0;
CREATE INDEX queue_leased ON queue (lease_owner, lease_until, year) WHERE state = 'leased';
CREATE TABLE runs (
	run_id TEXT COLLATE "C" NOT NULL,
	kind TEXT COLLATE "C" NOT NULL,
	started_at FLOAT NOT NULL,
	finished_at FLOAT,
	config_hash TEXT COLLATE "C" NOT NULL,
	scope TEXT COLLATE "C" NOT NULL,
	summary TEXT COLLATE "C",
	progress TEXT COLLATE "C",
	PRIMARY KEY (run_id)
);
CREATE TABLE attempts (
	id BIGSERIAL NOT NULL,
	ts FLOAT NOT NULL,
	run_id TEXT COLLATE "C" NOT NULL,
	resolver TEXT COLLATE "C",
	url TEXT COLLATE "C" NOT NULL,
	verb TEXT COLLATE "C" NOT NULL,
	status TEXT COLLATE "C" NOT NULL,
	http_status INTEGER,
	content_type TEXT COLLATE "C",
	elapsed_ms INTEGER,
	bytes_written BIGINT,
	content_length_hdr BIGINT,
	reason TEXT COLLATE "C",
	extra TEXT COLLATE "C" NOT NULL,
	work_id TEXT COLLATE "C",
	year INTEGER,
	tier TEXT COLLATE "C",
	role TEXT COLLATE "C",
	host TEXT COLLATE "C",
	canonical_url TEXT COLLATE "C",
	attempt INTEGER NOT NULL,
	retry_after_s FLOAT,
	cache_hit INTEGER NOT NULL,
	worker_id TEXT COLLATE "C" NOT NULL,
	seq BIGINT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (run_id, worker_id, seq)
);
CREATE INDEX attempts_run ON attempts (run_id, id);
CREATE INDEX attempts_year ON attempts (year, id);
CREATE TABLE artifacts (
	id BIGSERIAL NOT NULL,
	work_id TEXT COLLATE "C" NOT NULL,
	url TEXT COLLATE "C" NOT NULL,
	sha256 TEXT COLLATE "C" NOT NULL,
	path TEXT COLLATE "C" NOT NULL,
	kind TEXT COLLATE "C",
	bytes BIGINT,
	content_type TEXT COLLATE "C",
	etag TEXT COLLATE "C",
	last_modified TEXT COLLATE "C",
	license TEXT COLLATE "C",
	version TEXT COLLATE "C",
	resolver TEXT COLLATE "C",
	tier TEXT COLLATE "C",
	run_id TEXT COLLATE "C" NOT NULL,
	stored_at FLOAT NOT NULL,
	PRIMARY KEY (id)
);
CREATE UNIQUE INDEX artifacts_once ON artifacts (work_id, sha256, md5(url));
CREATE INDEX artifacts_run ON artifacts (run_id);
CREATE TABLE catalog_entries (
	work_id TEXT COLLATE "C" NOT NULL,
	year INTEGER,
	title TEXT COLLATE "C",
	doi TEXT COLLATE "C",
	classification TEXT COLLATE "C" NOT NULL,
	reason TEXT COLLATE "C" NOT NULL,
	kind TEXT COLLATE "C",
	url TEXT COLLATE "C",
	resolver TEXT COLLATE "C",
	tier TEXT COLLATE "C",
	http_status INTEGER,
	path TEXT COLLATE "C",
	sha256 TEXT COLLATE "C",
	bytes BIGINT,
	content_type TEXT COLLATE "C",
	license TEXT COLLATE "C",
	version TEXT COLLATE "C",
	html_paths TEXT COLLATE "C" NOT NULL,
	fallback_chain TEXT COLLATE "C" NOT NULL,
	retry_at FLOAT,
	run_id TEXT COLLATE "C" NOT NULL,
	config_hash TEXT COLLATE "C" NOT NULL,
	ttfp_ms INTEGER,
	requests INTEGER NOT NULL,
	finished_at FLOAT NOT NULL,
	meta TEXT COLLATE "C" NOT NULL,
	revision BIGINT NOT NULL,
	PRIMARY KEY (work_id),
	UNIQUE (revision)
);
CREATE INDEX entries_year ON catalog_entries (year, classification, reason, kind);
CREATE INDEX entries_run ON catalog_entries (run_id, classification, reason, kind);
CREATE TABLE hosts (
	host TEXT COLLATE "C" NOT NULL,
	robots_body TEXT COLLATE "C",
	robots_status INTEGER,
	robots_fetched_at FLOAT,
	closed_until FLOAT,
	note TEXT COLLATE "C",
	breaker TEXT COLLATE "C",
	breaker_until FLOAT,
	updated_at FLOAT NOT NULL,
	PRIMARY KEY (host)
);
CREATE TABLE group_leases (
	grp TEXT COLLATE "C" NOT NULL,
	owner TEXT COLLATE "C" NOT NULL,
	until FLOAT NOT NULL,
	wanted_until FLOAT NOT NULL,
	PRIMARY KEY (grp)
);
CREATE TABLE exports (
	name TEXT COLLATE "C" NOT NULL,
	position BIGINT NOT NULL,
	updated_at FLOAT NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE set_aside (
	id BIGSERIAL NOT NULL,
	run_id TEXT COLLATE "C",
	source TEXT COLLATE "C" NOT NULL,
	item TEXT COLLATE "C" NOT NULL,
	reason TEXT COLLATE "C" NOT NULL,
	ts FLOAT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE run_works (
	run_id TEXT COLLATE "C" NOT NULL,
	work_id TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (run_id, work_id),
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "artifacts" VALUES(1,'W1','https://a.org/x.pdf','abababababababababababababababababababababababababababababababab','PDF/x.pdf','pdf',1234,'application/pdf',NULL,NULL,NULL,NULL,'openalex','direct_oa','01RUN',1.79492402941799902914e+09);
INSERT INTO "attempts" VALUES(1,1793491200.0,'01RUN','openalex','https://a.org/x.pdf','GET','http-200',200,NULL,NULL,NULL,NULL,'ok','{}','W1',2024,NULL,NULL,NULL,NULL,1,NULL,0,'w',1);
INSERT INTO "catalog_entries" VALUES('W1',2024,'It''s; a title','10.1/x','success','ok','pdf','https://a.org/x.pdf','openalex','direct_oa',200,'PDF/x.pdf','abababababababababababababababababababababababababababababababab',1234,'application/pdf',NULL,NULL,'[]','[]',NULL,'01RUN','hash',NULL,0,1.79492402941799902914e+09,'{}',1);
INSERT INTO "exports" VALUES('attempts',1,1.79492402942499971389e+09);
INSERT INTO "hosts" VALUES('a.org','User-agent: *',200,1.79492402942600536345e+09,NULL,NULL,NULL,NULL,1.79492402942600536345e+09);
INSERT INTO "meta" VALUES('schema_version',4);
INSERT INTO "meta" VALUES('revision',1);
INSERT INTO "queue" VALUES('W1',2024,2024,'{"title":"It''s; a title"}','p','done',0.0,NULL,NULL,0,NULL,NULL,NULL,1.79492402941799902914e+09);
INSERT INTO "queue" VALUES('W2',2023,2023,'{}','p','queued',4000000000.0,'arxiv','{"tried":["u"]}',0,NULL,NULL,'pace',1.79492402941799902914e+09);
INSERT INTO "queue" VALUES('W3',NULL,0,'{}','p','queued',0.0,NULL,NULL,0,NULL,NULL,NULL,1.7949240294050037861e+09);
INSERT INTO "runs" VALUES('01RUN','pull',1.79492402940299224847e+09,NULL,'hash','{"years":[2024]}',NULL,NULL);
INSERT INTO "run_works" VALUES('01RUN','W1');
INSERT INTO "run_works" VALUES('01RUN','W2');
INSERT INTO "run_works" VALUES('01RUN','W3');
SELECT setval('artifacts_id_seq', 1);
SELECT setval('attempts_id_seq', 1);
