-- Yield by the journal, publisher or repository that OpenAlex lists first for a work.
SELECT coalesce(w.locations[1].source, 'unknown') AS source, count(*) AS works,
       count(*) FILTER (o.reason IN ('ok', 'not-modified')) AS saved,
       round(100 * saved / works, 1) AS percent
FROM outcomes AS o JOIN works AS w USING (work_id)
WHERE o.retry_at IS NULL
GROUP BY source
ORDER BY works DESC, source
LIMIT 30
