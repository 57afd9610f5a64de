-- Yield by host, which usually means by publisher or repository.
SELECT regexp_extract(url, '^[a-z]+://([^/:?#]+)', 1) AS host, count(*) AS works,
       count(*) FILTER (reason IN ('ok', 'not-modified')) AS saved,
       round(100 * saved / works, 1) AS percent,
       mode(reason) FILTER (reason NOT IN ('ok', 'not-modified')) AS most_frequent_failure
FROM outcomes
WHERE retry_at IS NULL AND url IS NOT NULL
GROUP BY host
ORDER BY works DESC, host
LIMIT 30
